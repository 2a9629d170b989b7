#pragma once
// The write end of a link as OpenSSL sees it: records gather in memory, and the link sends them. Because OpenSSL's own
// socket writes raise SIGPIPE and make one system call a record, and its memory BIO clears memory before it writes it.
#include <openssl/bio.h>

#include <cstddef>
#include <vector>

namespace troupe::transport {

/// Appends everything to `gathered`, which must outlive the BIO. The caller owns the result.
BIO* make_gathering_bio(std::vector<std::byte>& gathered);

}  // namespace troupe::transport
