#include "netpolicy/intercept/openssl.h"

#include <openssl/bn.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/pem.h>

namespace atl::intercept {
namespace {

constexpr long kX509v3 = 2;
// RFC 5280 section 4.1.2.2: positive, and at most 20 bytes.
constexpr int kSerialBits = 127;

Bio Wrap(const std::string& pem) {
  return Bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
}

std::string TextOf(const Bio& bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &data);
  return {data, static_cast<size_t>(size)};
}

}  // namespace

Error OpensslError(const std::string& what) {
  const char* reason = ERR_reason_error_string(ERR_get_error());
  ERR_clear_error();
  return {Code::kInternal, what + ": " + (reason != nullptr ? reason : "failed")};
}

Result<Key> NewKey() {
  Key key(EVP_EC_gen("P-256"));
  if (!key) return Fail(OpensslError("a key"));
  return key;
}

Result<Certificate> NewCertificate(const std::string& subject, EVP_PKEY* key, long from_s,
                                   long to_s) {
  Certificate made(X509_new());
  const std::unique_ptr<BIGNUM, Freer<BN_free>> serial(BN_new());
  const bool done =
      made && serial && X509_set_version(made.get(), kX509v3) == 1 &&
      BN_rand(serial.get(), kSerialBits, BN_RAND_TOP_ONE, BN_RAND_BOTTOM_ANY) == 1 &&
      BN_to_ASN1_INTEGER(serial.get(), X509_get_serialNumber(made.get())) != nullptr &&
      X509_gmtime_adj(X509_getm_notBefore(made.get()), from_s) != nullptr &&
      X509_gmtime_adj(X509_getm_notAfter(made.get()), to_s) != nullptr &&
      X509_set_pubkey(made.get(), key) == 1 &&
      X509_NAME_add_entry_by_txt(X509_get_subject_name(made.get()), "CN", MBSTRING_UTF8,
                                 reinterpret_cast<const unsigned char*>(subject.data()),
                                 static_cast<int>(subject.size()), -1, 0) == 1;
  if (!done) return Fail(OpensslError("a certificate"));
  return made;
}

Status AddExtension(X509* certificate, X509* issuer, int nid, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const Extension extension(X509V3_EXT_conf_nid(nullptr, &context, nid, value.c_str()));
  if (!extension || X509_add_ext(certificate, extension.get(), -1) != 1) {
    return Fail(OpensslError("an extension of a certificate"));
  }
  return {};
}

std::string PemOf(X509* certificate) {
  const Bio bio(BIO_new(BIO_s_mem()));
  PEM_write_bio_X509(bio.get(), certificate);
  return TextOf(bio);
}

std::string PemOf(EVP_PKEY* key) {
  const Bio bio(BIO_new(BIO_s_mem()));
  PEM_write_bio_PrivateKey(bio.get(), key, nullptr, nullptr, 0, nullptr, nullptr);
  return TextOf(bio);
}

Result<Certificate> CertificateOf(const std::string& pem) {
  Certificate found(PEM_read_bio_X509(Wrap(pem).get(), nullptr, nullptr, nullptr));
  if (!found) return Fail(OpensslError("the certificate of an authority"));
  return found;
}

Result<Key> KeyOf(const std::string& pem) {
  Key found(PEM_read_bio_PrivateKey(Wrap(pem).get(), nullptr, nullptr, nullptr));
  if (!found) return Fail(OpensslError("the key of an authority"));
  return found;
}

}  // namespace atl::intercept
