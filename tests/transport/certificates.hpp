#pragma once
// Certificate authorities and node certificates for tests, good and bad, made in memory.
#include <string>

#include <troupe/transport/link.hpp>

namespace troupe::transport::testing {

struct CertificateOptions {
  std::string uri;            ///< empty: no subject alternative name
  long valid_from_s = -3600;  ///< relative to now
  long valid_until_s = 3600;
};

class Authority {
 public:
  Authority();
  ~Authority();
  Authority(const Authority&) = delete;
  Authority& operator=(const Authority&) = delete;

  std::string certificate() const;  ///< PEM
  /// A node's certificate and key, trusting this authority.
  Credentials issue(const CertificateOptions& options) const;

 private:
  void* key_;
  void* certificate_;
};

}  // namespace troupe::transport::testing
