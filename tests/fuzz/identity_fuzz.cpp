// Who a peer is: identities, addresses and times as text, certificates and requests.
#include <chrono>

#include <openssl/evp.h>

#include <troupe/tests/fuzz/fuzz.hpp>
#include <troupe/transport/address.hpp>
#include <troupe/transport/authority.hpp>
#include <troupe/transport/credentials.hpp>
#include <troupe/transport/identity.hpp>

namespace troupe::fuzz {
namespace {

using namespace transport;

const Identity kNode{"run-1", {"actor", "evaluator"}, "node-3"};

void texts(Bytes input) {
  const std::string text = to_string(input);
  if (const auto identity = parse_identity(text); identity.ok()) {
    TROUPE_CHECK(to_uri(*identity).value() == text, "an identity has two spellings");
  }
  if (const auto address = parse_address(text); address.ok()) {
    TROUPE_CHECK(parse_address(to_string(*address)).value() == *address, "the address {} changed", text);
  }
  if (const auto time = parse_time(text); time.ok()) {
    TROUPE_CHECK(parse_time(format_time(*time)).value() == *time, "the time {} changed", text);
  }
}

std::string base64(Bytes bytes) {
  std::string out(bytes.size() / 3 * 4 + 8, '\0');
  const int size =
      EVP_EncodeBlock(reinterpret_cast<unsigned char*>(out.data()),
                      reinterpret_cast<const unsigned char*>(bytes.data()), static_cast<int>(bytes.size()));
  out.resize(static_cast<std::size_t>(size));
  for (std::size_t at = 64; at < out.size(); at += 65) out.insert(at, 1, '\n');
  return out;
}

std::string der(std::string_view pem) {
  std::string text(pem.substr(pem.find('\n') + 1));
  text.resize(text.find("-----"));
  std::erase(text, '\n');
  std::string out(text.size() / 4 * 3, '\0');
  EVP_DecodeBlock(reinterpret_cast<unsigned char*>(out.data()), reinterpret_cast<const unsigned char*>(text.data()),
                  static_cast<int>(text.size()));
  out.resize(out.size() - static_cast<std::size_t>(std::ranges::count(text, '=')));
  return out;
}

std::string pem(std::string_view what, Bytes der) {
  return fmt::format("-----BEGIN {0}-----\n{1}\n-----END {0}-----\n", what, base64(der));
}

void certificate(const std::string& text) {
  const auto info = read_certificate(text);
  if (!info.ok()) return;
  TROUPE_CHECK(to_uri(info->identity).ok(), "an identity that is none");
  (void)format_time(info->valid_until);
  TROUPE_CHECK(fingerprint(text)->size() == 64, "a fingerprint of another length");
}

/// One for all inputs: a key takes longer than a request.
const Authority& authority() {
  static const Authority made = Authority::create("run-1", std::chrono::system_clock::now()).value();
  return made;
}

void request(const std::string& text) {
  const auto certificate = authority().sign(text, kNode, std::chrono::system_clock::now());
  if (certificate.ok()) TROUPE_CHECK(read_certificate(*certificate)->identity == kNode, "another was certified");
}

void one_input(Bytes input) {
  Input choice(input);
  switch (choice.choose(5)) {
    case 0:
      return texts(choice.rest());
    case 1:
      return certificate(to_string(choice.rest()));
    case 2:
      return certificate(pem("CERTIFICATE", choice.rest()));
    case 3:
      return request(to_string(choice.rest()));
    default:
      return request(pem("CERTIFICATE REQUEST", choice.rest()));
  }
}

std::vector<std::string> seeds() {
  std::vector<std::string> all;
  for (const char* text : {"troupe://run-1/actor+evaluator/node-3", "10.0.0.2:7000", "[::1]:7000",
                           "learner.example:65535", "2026-11-23T10:00:00Z", "2262-04-11T23:47:17Z"}) {
    all.push_back(std::string(1, '\0') + text);
  }
  const std::string node = authority().issue(kNode, std::chrono::system_clock::now()).value().certificate;
  const std::string wish = make_request().request;
  all.insert(all.end(), {"\1" + node, "\2" + der(node), "\3" + wish, "\4" + der(wish)});
  return all;
}

const Registered registered({"identity", one_input, seeds});

}  // namespace
}  // namespace troupe::fuzz
