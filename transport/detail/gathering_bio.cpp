#include <troupe/transport/detail/gathering_bio.hpp>

#include <troupe/core/check.hpp>

namespace troupe::transport {

BIO* make_gathering_bio(std::vector<std::byte>& gathered) {
  static BIO_METHOD* const kMethod = [] {
    BIO_METHOD* method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "troupe gather");
    TROUPE_CHECK(method != nullptr, "OpenSSL is out of memory");
    BIO_meth_set_write(method, [](BIO* bio, const char* data, int size) {
      auto* const to = static_cast<std::vector<std::byte>*>(BIO_get_data(bio));
      const auto* const bytes = reinterpret_cast<const std::byte*>(data);
      to->insert(to->end(), bytes, bytes + size);
      return size;
    });
    BIO_meth_set_ctrl(method, [](BIO*, int command, long, void*) -> long { return command == BIO_CTRL_FLUSH; });
    return method;
  }();
  BIO* const bio = BIO_new(kMethod);
  TROUPE_CHECK(bio != nullptr, "OpenSSL is out of memory");
  BIO_set_data(bio, &gathered);
  BIO_set_init(bio, 1);
  return bio;
}

}  // namespace troupe::transport
