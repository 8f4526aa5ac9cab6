#include "netpolicy/intercept/certificates.h"

#include <utility>

#include "runtime/base/clock.h"

namespace atl::intercept {
namespace {

constexpr long kDay = 86400;
constexpr int64_t kKeptUs = int64_t{kDay} * 1'000'000;

}  // namespace

Result<std::unique_ptr<Certificates>> Certificates::Create(const Authority& authority) {
  ATOLL_ASSIGN(Certificate issuer, CertificateOf(authority.certificate));
  ATOLL_ASSIGN(Key issuer_key, KeyOf(authority.key));
  ATOLL_ASSIGN(Key key, NewKey());
  return std::unique_ptr<Certificates>(
      new Certificates(std::move(issuer), std::move(issuer_key), std::move(key)));
}

Result<std::shared_ptr<const http::TlsContext>> Certificates::For(const std::string& name) {
  const int64_t now_us = MonotonicMicros();
  if (const auto found = made_.find(name); found != made_.end()) {
    if (now_us < found->second.until_us) return found->second.context;
    made_.erase(found);
  }
  // All are dropped at once. A sandbox that asks for more names than this is not talking to real
  // servers.
  if (made_.size() >= kKept) made_.clear();
  ATOLL_ASSIGN(const std::string certificate, Sign(name));
  ATOLL_ASSIGN(auto context, http::TlsContext::ForServerText(certificate, PemOf(key_.get()),
                                                             "the certificate for " + name));
  made_[name] = {context, now_us + kKeptUs};
  return context;
}

// Makes what Python's strict verification, Go and rustls require: a version 3 certificate with both
// key identifiers, and the name as subjectAltName.
Result<std::string> Certificates::Sign(const std::string& name) {
  ATOLL_ASSIGN(const Certificate made, NewCertificate("Atoll", key_.get(), -kDay, 3 * kDay));
  X509* certificate = made.get();
  if (X509_set_issuer_name(certificate, X509_get_subject_name(issuer_.get())) != 1) {
    return Fail(OpensslError("a certificate"));
  }
  const std::pair<int, std::string> extensions[] = {{NID_basic_constraints, "critical,CA:FALSE"},
                                                    {NID_key_usage, "critical,digitalSignature"},
                                                    {NID_ext_key_usage, "serverAuth"},
                                                    {NID_subject_alt_name, "DNS:" + name},
                                                    {NID_subject_key_identifier, "hash"},
                                                    {NID_authority_key_identifier, "keyid:always"}};
  for (const auto& [nid, value] : extensions) {
    ATOLL_TRY(AddExtension(certificate, issuer_.get(), nid, value));
  }
  if (X509_sign(certificate, issuer_key_.get(), EVP_sha256()) == 0) {
    return Fail(OpensslError("the signature of a certificate"));
  }
  return PemOf(certificate);
}

}  // namespace atl::intercept
