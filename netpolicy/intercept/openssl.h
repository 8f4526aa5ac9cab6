// Owning pointers to OpenSSL's objects, and functions on them. Internal to this folder.
#pragma once

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <memory>
#include <string>

#include "runtime/base/result.h"

namespace atl::intercept {

template <auto Free>
struct Freer {
  template <typename T>
  void operator()(T* object) const {
    Free(object);
  }
};
using Certificate = std::unique_ptr<X509, Freer<X509_free>>;
using Key = std::unique_ptr<EVP_PKEY, Freer<EVP_PKEY_free>>;
using Bio = std::unique_ptr<BIO, Freer<BIO_free_all>>;
using Extension = std::unique_ptr<X509_EXTENSION, Freer<X509_EXTENSION_free>>;

// Returns "what: reason", with the first error of OpenSSL's queue.
Error OpensslError(const std::string& what);

Result<Key> NewKey();
// Makes a certificate with a random serial number, its subject and validity. It has no issuer and
// no signature yet.
Result<Certificate> NewCertificate(const std::string& subject, EVP_PKEY* key, long from_s,
                                   long to_s);
// Adds an extension. `value` has the form of x509v3_config(5). `issuer` may be the certificate
// itself.
Status AddExtension(X509* certificate, X509* issuer, int nid, const std::string& value);

std::string PemOf(X509* certificate);
std::string PemOf(EVP_PKEY* key);
Result<Certificate> CertificateOf(const std::string& pem);
Result<Key> KeyOf(const std::string& pem);

}  // namespace atl::intercept
