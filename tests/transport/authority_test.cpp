// A run's authority and the credentials that it issues: what is in a certificate, what a request cannot ask for, and
// files that are open to others, damaged, or out of time.
#include <troupe/transport/authority.hpp>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <filesystem>
#include <fstream>

#include <troupe/tests/apps/test_directory.hpp>
#include <troupe/transport/detail/openssl.hpp>

namespace troupe::transport {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using namespace std::chrono_literals;

const WallTime kNow = std::chrono::sys_days(std::chrono::year(2025) / 6 / 30) + 12h;
const Identity kNode{"run-1", {"actor", "evaluator"}, "node-3"};

class AuthorityTest : public apps::TestDirectory {
 protected:
  std::string folder() const { return (path() / "security").string(); }
  void write(const std::string& file, const std::string& text) const {
    std::ofstream(fs::path(folder()) / file, std::ios::binary) << text;
  }

  const Authority authority_ = Authority::create("run-1", kNow).value();
};

TEST_F(AuthorityTest, CertifiesWhoTheNodeIsAndForHowLong) {
  const Credentials node = authority_.issue(kNode, kNow, 10min).value();
  const CertificateInfo info = read_certificate(node.certificate).value();
  EXPECT_EQ(info.identity, kNode);
  EXPECT_EQ(info.valid_from, kNow - kClockSkew);
  EXPECT_EQ(info.valid_until, kNow + 10min);
  EXPECT_EQ(node.authority, authority_.certificate());
  const X509Ptr certificate = parse_certificate(node.certificate);
  EXPECT_EQ(X509_check_purpose(certificate.get(), X509_PURPOSE_SSL_CLIENT, 0), 1);
  EXPECT_EQ(X509_check_purpose(certificate.get(), X509_PURPOSE_SSL_SERVER, 0), 1);
  EXPECT_EQ(X509_check_ca(certificate.get()), 0) << "a node cannot certify others";
  EXPECT_EQ(X509_check_private_key(certificate.get(), parse_key(node.key).get()), 1);
}

TEST_F(AuthorityTest, NoCertificateOutlivesItsBounds) {
  const auto until = [&](WallTime now, std::chrono::seconds lifetime) {
    return read_certificate(authority_.issue(kNode, now, lifetime).value().certificate).value().valid_until;
  };
  EXPECT_EQ(until(kNow, 24h * 10000), kNow + kNodeLifetime);
  const WallTime end = kNow + kAuthorityLifetime;
  EXPECT_EQ(until(end - 2h, 24h), end);
}

TEST_F(AuthorityTest, TimesThatAClockCannotHoldBecomeItsFirstOrLast) {
  const auto back = [](const char* text) { return format_time(parse_time(text).value()); };
  EXPECT_EQ(back("2026-11-23T12:00:00Z"), "2026-11-23T12:00:00Z");
  EXPECT_EQ(back("2262-04-11T23:47:16Z"), "2262-04-11T23:47:16Z");
  EXPECT_EQ(back("2262-04-11T23:47:17Z"), "2262-04-11T23:47:16Z");
  EXPECT_EQ(back("9999-12-31T23:59:59Z"), "2262-04-11T23:47:16Z") << "without a bound it was 1816";
  EXPECT_EQ(back("1677-09-21T00:12:43Z"), "1677-09-21T00:12:44Z");
  EXPECT_EQ(back("0001-01-01T00:00:00Z"), "1677-09-21T00:12:44Z");
}

TEST_F(AuthorityTest, ACertificateThatNeverEndsIsValidNow) {
  const X509Ptr certificate = parse_certificate(authority_.issue(kNode, kNow).value().certificate);
  ASSERT_EQ(ASN1_TIME_set_string_X509(X509_getm_notAfter(certificate.get()), "99991231235959Z"), 1);
  EXPECT_GT(read_certificate(*certificate)->valid_until, kNow + kAuthorityLifetime);
}

TEST_F(AuthorityTest, SerialNumbersAreRandom) {
  const auto serial = [&] {
    const X509Ptr certificate = parse_certificate(authority_.issue(kNode, kNow).value().certificate);
    return OpenSslPtr<BIGNUM, BN_free>(ASN1_INTEGER_to_BN(X509_get0_serialNumber(certificate.get()), nullptr));
  };
  const auto first = serial(), second = serial();
  EXPECT_GT(BN_num_bits(first.get()), 100);
  EXPECT_LE(BN_num_bits(first.get()), 159) << "at most 20 bytes, and positive";
  EXPECT_NE(BN_cmp(first.get(), second.get()), 0);
}

TEST_F(AuthorityTest, TheFingerprintIsThatOfOpenSsl) {
  const std::string pem = authority_.certificate();
  unsigned char digest[32];
  unsigned size = 0;
  ASSERT_EQ(X509_digest(parse_certificate(pem).get(), EVP_sha256(), digest, &size), 1);
  std::string expected;
  for (const unsigned char byte : digest) expected += fmt::format("{:02x}", byte);
  EXPECT_EQ(fingerprint(pem).value(), expected);
  EXPECT_EQ(fingerprint("nothing").error().code, Code::kInvalidArgument);
}

TEST_F(AuthorityTest, OnlyTheSignerDecidesWhoANodeIs) {
  // A request that asks for another name, for a URI and to be an authority itself.
  const KeyPtr key = make_key();
  const X509ReqPtr request(X509_REQ_new());
  X509_NAME_add_entry_by_txt(X509_REQ_get_subject_name(request.get()), "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>("chief"), -1, -1, 0);
  X509_REQ_set_pubkey(request.get(), key.get());
  STACK_OF(X509_EXTENSION)* const extensions = sk_X509_EXTENSION_new_null();
  sk_X509_EXTENSION_push(
      extensions, X509V3_EXT_conf_nid(nullptr, nullptr, NID_subject_alt_name, "URI:troupe://run-1/chief/node-0"));
  sk_X509_EXTENSION_push(extensions, X509V3_EXT_conf_nid(nullptr, nullptr, NID_basic_constraints, "CA:TRUE"));
  X509_REQ_add_extensions(request.get(), extensions);
  sk_X509_EXTENSION_pop_free(extensions, X509_EXTENSION_free);
  ASSERT_GT(X509_REQ_sign(request.get(), key.get(), EVP_sha256()), 0);

  const std::string certificate = authority_.sign(to_pem(request.get()), kNode, kNow).value();
  EXPECT_EQ(read_certificate(certificate).value().identity, kNode);
  EXPECT_EQ(X509_check_ca(parse_certificate(certificate).get()), 0);
  EXPECT_EQ(EVP_PKEY_eq(X509_get0_pubkey(parse_certificate(certificate).get()), key.get()), 1);
}

TEST_F(AuthorityTest, RequestsThatProveNoKeyAreRefused) {
  const auto refusal = [&](const std::string& request) {
    const auto result = authority_.sign(request, kNode, kNow);
    return result.ok() ? "accepted" : result.error().message;
  };
  EXPECT_EQ(refusal(make_request().request), "accepted");
  EXPECT_THAT(refusal(""), HasSubstr("not a certificate request"));
  EXPECT_THAT(refusal(make_request().key), HasSubstr("not a certificate request"));
  EXPECT_THAT(refusal(std::string(16 * 1024 + 1, 'x')), HasSubstr("16385 bytes, expected at most 16384"));

  const auto request_of = [](EVP_PKEY* shown, EVP_PKEY* signer, const EVP_MD* digest) {
    const X509ReqPtr request(X509_REQ_new());
    X509_REQ_set_pubkey(request.get(), shown);
    EXPECT_GT(X509_REQ_sign(request.get(), signer, digest), 0);
    return to_pem(request.get());
  };
  const KeyPtr ed25519(EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519"));
  EXPECT_EQ(refusal(request_of(ed25519.get(), ed25519.get(), nullptr)), "accepted");
  EXPECT_THAT(refusal(request_of(make_key().get(), make_key().get(), EVP_sha256())),
              HasSubstr("not signed by its own"));
  const KeyPtr rsa(EVP_RSA_gen(1024));
  EXPECT_THAT(refusal(request_of(rsa.get(), rsa.get(), EVP_sha256())), HasSubstr("neither P-256 nor Ed25519"));
  const KeyPtr p224(EVP_EC_gen("P-224"));
  EXPECT_THAT(refusal(request_of(p224.get(), p224.get(), EVP_sha256())), HasSubstr("neither P-256 nor Ed25519"));
}

TEST_F(AuthorityTest, CertifiesNobodyOfAnotherRun) {
  EXPECT_EQ(authority_.issue({"run-2", {"actor"}, "n"}, kNow).error().message,
            "authority: troupe://run-2/actor/n is of another run than \"run-1\"");
  EXPECT_EQ(authority_.issue({"run-1", {}, "n"}, kNow).error().code, Code::kInvalidArgument);
  EXPECT_EQ(Authority::create("Run 1", kNow).error().message, "authority: run \"Run 1\" is no name (identity.hpp)");
}

TEST_F(AuthorityTest, IsKeptInAFolderThatOnlyItsOwnerCanRead) {
  ASSERT_TRUE(authority_.save(folder()).ok());
  EXPECT_EQ(fs::status(folder()).permissions(), fs::perms::owner_all);
  EXPECT_EQ(fs::status(folder() + "/authority.key").permissions(), fs::perms::owner_read | fs::perms::owner_write);
  const Authority loaded = Authority::load(folder(), kNow + 24h).value();
  EXPECT_EQ(loaded.run(), "run-1");
  EXPECT_EQ(loaded.certificate(), authority_.certificate());
  const Credentials node = loaded.issue(kNode, kNow).value();
  EXPECT_EQ(X509_verify(parse_certificate(node.certificate).get(),
                        X509_get0_pubkey(parse_certificate(authority_.certificate()).get())),
            1);
  EXPECT_EQ(Authority::create("run-1", kNow).value().save(folder()).error().code, Code::kAlreadyExists);
}

TEST_F(AuthorityTest, AKeyThatOthersCanReadIsRefused) {
  ASSERT_TRUE(authority_.save(folder()).ok());
  const std::string file = folder() + "/authority.key";
  for (const auto mode : {0604, 0602, 0644, 0666}) {
    fs::permissions(file, fs::perms(mode));
    EXPECT_EQ(Authority::load(folder(), kNow).error().code, Code::kInvalidArgument);
  }
  fs::permissions(file, fs::perms(0644));
  EXPECT_EQ(Authority::load(folder(), kNow).error().message,
            file + ": mode 0644 opens it to others, expected 0600: run chmod 600 " + file);
  fs::remove(file);
  fs::permissions(folder(), fs::perms(0755));
  EXPECT_THAT(authority_.save(folder()).error().message, HasSubstr("mode 0755 opens it to others, expected 0700"));
}

TEST_F(AuthorityTest, WhatWasOpenedToAGroupSinceIsClosedAgain) {  // chmod -R g+rwX RUN, as by Kubernetes' fsGroup
  ASSERT_TRUE(authority_.save(folder()).ok());
  const std::string file = folder() + "/authority.key";
  for (const auto& [of_folder, of_file] : {std::pair(0770, 0660), std::pair(02770, 0640), std::pair(0700, 0620)}) {
    fs::permissions(folder(), fs::perms(of_folder));
    fs::permissions(file, fs::perms(of_file));
    ASSERT_TRUE(Authority::load(folder(), kNow).ok());
    EXPECT_EQ(fs::status(file).permissions(), fs::perms(0600));
    EXPECT_EQ(fs::status(folder()).permissions() & fs::perms(0777), fs::perms(0700));
  }
  fs::permissions(folder(), fs::perms(0770));
  ASSERT_TRUE(save_credentials(authority_.issue(kNode, kNow).value(), folder()).ok());
  EXPECT_EQ(fs::status(folder()).permissions(), fs::perms(0700));
}

TEST_F(AuthorityTest, AMissingDamagedOrOutdatedAuthorityIsSaidSo) {
  EXPECT_EQ(Authority::load(folder(), kNow).error().code, Code::kNotFound);
  ASSERT_TRUE(authority_.save(folder()).ok());
  EXPECT_THAT(Authority::load(folder(), kNow + kAuthorityLifetime).error().message,
              HasSubstr("valid from 2025-06-30T11:00:00Z until 2026-06-30T12:00:00Z, and it is 2026-06-30T12:00:00Z"));
  EXPECT_FALSE(Authority::load(folder(), kNow - 2h).ok());
  const std::string whole = text_of(folder() + "/authority.key");
  for (std::size_t size = 0; size + 2 < whole.size(); size += 7) {
    write("authority.key", whole.substr(0, size));
    EXPECT_FALSE(Authority::load(folder(), kNow).ok()) << size;
  }
  const Credentials node = authority_.issue(kNode, kNow).value();
  write("authority.key", node.certificate + node.key);
  EXPECT_THAT(Authority::load(folder(), kNow).error().message, HasSubstr("expected an authority's certificate"));
  write("authority.key", std::string(64 * 1024 + 1, '-'));
  EXPECT_THAT(Authority::load(folder(), kNow).error().message, HasSubstr("expected at most 65536"));
}

TEST_F(AuthorityTest, CredentialsSurviveOnDiskAndFitCafsPaths) {
  const Credentials node = authority_.issue(kNode, kNow).value();
  ASSERT_TRUE(save_credentials(node, folder()).ok());
  ASSERT_TRUE(save_credentials(node, folder()).ok()) << "a renewal replaces them";
  EXPECT_EQ(fs::status(folder()).permissions(), fs::perms::owner_all);
  const Credentials loaded = load_credentials(folder(), kNow).value();
  EXPECT_EQ(loaded.authority, node.authority);
  EXPECT_EQ(loaded.certificate, node.certificate);
  EXPECT_EQ(loaded.key, node.key);
  // As CAF's TLS reads them.
  const CredentialFiles files = credential_files(folder());
  SSL_CTX* const context = SSL_CTX_new(TLS_method());
  EXPECT_EQ(SSL_CTX_use_certificate_chain_file(context, files.node.c_str()), 1);
  EXPECT_EQ(SSL_CTX_use_PrivateKey_file(context, files.node.c_str(), SSL_FILETYPE_PEM), 1);
  EXPECT_EQ(SSL_CTX_load_verify_locations(context, files.authority.c_str(), nullptr), 1);
  EXPECT_EQ(SSL_CTX_check_private_key(context), 1);
  SSL_CTX_free(context);
}

TEST_F(AuthorityTest, CredentialsThatDoNotFitTogetherStopTheStart) {
  const Credentials node = authority_.issue(kNode, kNow, 1h).value();
  const auto refusal = [&](const Credentials& credentials, WallTime now) {
    EXPECT_TRUE(save_credentials(credentials, folder()).ok());
    const auto result = load_credentials(folder(), now);
    return result.ok() ? "accepted" : result.error().message;
  };
  EXPECT_EQ(refusal(node, kNow), "accepted");
  EXPECT_THAT(refusal(node, kNow + 1h), HasSubstr("until 2025-06-30T13:00:00Z, and it is 2025-06-30T13:00:00Z: join"));
  Credentials odd = node;
  odd.key = authority_.issue(kNode, kNow).value().key;
  EXPECT_THAT(refusal(odd, kNow), HasSubstr("security: expected a certificate and its key: key values mismatch"));
  odd = node;
  odd.authority = Authority::create("run-1", kNow).value().certificate();
  EXPECT_THAT(refusal(odd, kNow), HasSubstr("security: the certificate is not signed by the authority: "));
  odd.authority.clear();
  EXPECT_THAT(refusal(odd, kNow), HasSubstr("security: authority: no certificate"));
  ASSERT_TRUE(save_credentials(node, folder()).ok());
  fs::permissions(credential_files(folder()).node, fs::perms(0644));
  EXPECT_THAT(load_credentials(folder(), kNow).error().message, HasSubstr("node.pem: mode 0644 opens it to others"));
  fs::permissions(credential_files(folder()).node, fs::perms(0640));
  EXPECT_TRUE(load_credentials(folder(), kNow).ok()) << "closed again";
  EXPECT_EQ(fs::status(credential_files(folder()).node).permissions(), fs::perms(0600));
  EXPECT_EQ(load_credentials(path() / "none", kNow).error().code, Code::kNotFound);
}

}  // namespace
}  // namespace troupe::transport
