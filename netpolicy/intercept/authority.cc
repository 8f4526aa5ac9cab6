#include "netpolicy/intercept/authority.h"

#include <cstdio>

#include "netpolicy/intercept/openssl.h"

namespace atl::intercept {
namespace {

constexpr long kDay = 86400;
constexpr long kYears = 30 * 365 * kDay;

}  // namespace

Result<Authority> MakeAuthority(const std::string& sandbox_id) {
  ATOLL_ASSIGN(const Key key, NewKey());
  // Each authority has a subject of its own, so that two in one directory have different links. It
  // is valid from yesterday, because the sandbox's clock may be late.
  ATOLL_ASSIGN(const Certificate made,
               NewCertificate("Atoll credentials " + sandbox_id, key.get(), -kDay, kYears));
  X509* certificate = made.get();
  if (X509_set_issuer_name(certificate, X509_get_subject_name(certificate)) != 1) {
    return Fail(OpensslError("a certificate"));
  }
  ATOLL_TRY(
      AddExtension(certificate, certificate, NID_basic_constraints, "critical,CA:TRUE,pathlen:0"));
  ATOLL_TRY(AddExtension(certificate, certificate, NID_key_usage, "critical,keyCertSign,cRLSign"));
  ATOLL_TRY(AddExtension(certificate, certificate, NID_subject_key_identifier, "hash"));
  if (X509_sign(certificate, key.get(), EVP_sha256()) == 0) {
    return Fail(OpensslError("the signature of an authority"));
  }
  char link[16];
  std::snprintf(link, sizeof link, "%08lx.0", X509_subject_name_hash(certificate));
  return Authority{PemOf(certificate), PemOf(key.get()), link};
}

}  // namespace atl::intercept
