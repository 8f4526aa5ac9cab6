#include "netpolicy/intercept/certificates.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>

#include <regex>
#include <set>
#include <vector>

#include "netpolicy/intercept/authority.h"
#include "netpolicy/intercept/line.h"
#include "runtime/base/sys.h"

namespace atl::intercept {
namespace {

X509* LeafOf(const http::TlsContext& context) {
  return SSL_CTX_get0_certificate(context.get());
}

// Returns "ok", or why a strict client that trusts only `authority` refuses it for `name`.
std::string Verdict(const Authority& authority, X509* leaf, const std::string& name) {
  const std::unique_ptr<X509_STORE, Freer<X509_STORE_free>> store(X509_STORE_new());
  EXPECT_EQ(X509_STORE_add_cert(store.get(), CertificateOf(authority.certificate)->get()), 1);
  const std::unique_ptr<X509_STORE_CTX, Freer<X509_STORE_CTX_free>> context(X509_STORE_CTX_new());
  EXPECT_EQ(X509_STORE_CTX_init(context.get(), store.get(), leaf, nullptr), 1);
  X509_VERIFY_PARAM* asked = X509_STORE_CTX_get0_param(context.get());
  X509_VERIFY_PARAM_set_flags(asked, X509_V_FLAG_X509_STRICT);
  X509_VERIFY_PARAM_set_purpose(asked, X509_PURPOSE_SSL_SERVER);
  X509_VERIFY_PARAM_set1_host(asked, name.c_str(), name.size());
  if (X509_verify_cert(context.get()) == 1) return "ok";
  return X509_verify_cert_error_string(X509_STORE_CTX_get_error(context.get()));
}

TEST(Certificates, AreBelievedForTheirNameByTheirSandboxAlone) {
  const Authority one = *MakeAuthority("one"), other = *MakeAuthority("other");
  const auto certificates = *Certificates::Create(one);
  const std::string name = "a-_1.example";
  const auto context = *certificates->For(name);
  EXPECT_EQ(Verdict(one, LeafOf(*context), name), "ok");
  EXPECT_EQ(Verdict(one, LeafOf(*context), "b.example"), "hostname mismatch");
  EXPECT_EQ(Verdict(other, LeafOf(*context), name), "unable to get local issuer certificate");
  // The longest possible name.
  const std::string longest = std::string(63, 'a') + "." + std::string(63, 'b') + "." +
                              std::string(63, 'c') + "." + std::string(61, 'd');
  EXPECT_EQ(Verdict(one, LeafOf(**certificates->For(longest)), longest), "ok");
}

TEST(Certificates, AreKeptUpToABound) {
  const auto certificates = *Certificates::Create(*MakeAuthority("s"));
  const auto first = *certificates->For("first.example");
  EXPECT_EQ(*certificates->For("first.example"), first);
  for (size_t i = 0; i < Certificates::kKept; ++i) {
    ASSERT_TRUE(certificates->For("n" + std::to_string(i) + ".example"));
  }
  EXPECT_NE(*certificates->For("first.example"), first);
}

TEST(Authority, SignsServersAndNothingElse) {
  const Authority authority = *MakeAuthority("s");
  const auto certificate = *CertificateOf(authority.certificate);
  EXPECT_EQ(X509_check_ca(certificate.get()), 1);
  EXPECT_EQ(X509_get_pathlen(certificate.get()), 0) << "no authority below it";
  EXPECT_EQ(X509_get_key_usage(certificate.get()),
            static_cast<uint32_t>(KU_KEY_CERT_SIGN | KU_CRL_SIGN));
  EXPECT_TRUE(std::regex_match(authority.link, std::regex("[0-9a-f]{8}\\.0")));
  EXPECT_EQ(authority.certificate.find("PRIVATE"), std::string::npos);
  EXPECT_NE(authority.link, MakeAuthority("t")->link) << "two in one directory";
}

TEST(Line, CarriesWhatItIsGiven) {
  Message begin{Begin{*MakeAuthority("s"), *sys::Open("/dev/null", O_RDONLY)}};
  Message read;
  wire::Packet packet = wire::EncodePacket(begin);
  std::vector<UniqueFd> descriptors;
  for (const int fd : packet.descriptors) descriptors.emplace_back(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
  ASSERT_TRUE(wire::DecodeFields(packet.bytes, &read, descriptors));
  EXPECT_EQ(std::get<Begin>(read.value).authority, std::get<Begin>(begin.value).authority);
  // A connection without its descriptors is invalid.
  EXPECT_FALSE(
      wire::DecodeFields(wire::EncodeFields(Message{Serve{"n", true, {}, {}, {}}}), &read));
}

}  // namespace
}  // namespace atl::intercept
