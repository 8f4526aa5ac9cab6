#include "tests/unit/http/test_certificate.h"

#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

namespace atl::http {
namespace {

std::string TakeText(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  std::string text(data, static_cast<size_t>(size));
  BIO_free(bio);
  return text;
}

void AddExtension(X509* certificate, int nid, const std::string& value) {
  X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, nullptr, nid, value.c_str());
  EXPECT_EQ(X509_add_ext(certificate, extension, -1), 1);
  X509_EXTENSION_free(extension);
}

}  // namespace

TestCertificate::TestCertificate(const std::string& name, int days) {
  EVP_PKEY* pair = EVP_EC_gen("P-256");
  X509* made = X509_new();
  X509_set_version(made, 2);
  ASN1_INTEGER_set(X509_get_serialNumber(made), 1);
  X509_gmtime_adj(X509_getm_notBefore(made), -3L * 24 * 3600);
  X509_gmtime_adj(X509_getm_notAfter(made), days * 24L * 3600);
  X509_set_pubkey(made, pair);
  X509_NAME* subject = X509_get_subject_name(made);
  X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
  X509_set_issuer_name(made, subject);
  AddExtension(made, NID_basic_constraints, "critical,CA:TRUE");
  AddExtension(made, NID_subject_alt_name, "DNS:" + name + ",IP:127.0.0.1");
  EXPECT_GT(X509_sign(made, pair, EVP_sha256()), 0);

  BIO* out = BIO_new(BIO_s_mem());
  PEM_write_bio_X509(out, made);
  certificate = TakeText(out);
  out = BIO_new(BIO_s_mem());
  PEM_write_bio_PrivateKey(out, pair, nullptr, nullptr, 0, nullptr, nullptr);
  key = TakeText(out);
  out = BIO_new(BIO_s_mem());
  PEM_write_bio_PrivateKey(out, pair, EVP_aes_128_cbc(),
                           reinterpret_cast<const unsigned char*>("word"), 4, nullptr, nullptr);
  locked_key = TakeText(out);
  X509_free(made);
  EVP_PKEY_free(pair);
}

TestFiles::TestFiles() {
  char name[] = "/tmp/atoll-tls-XXXXXX";
  EXPECT_NE(mkdtemp(name), nullptr);
  directory_ = name;
}

TestFiles::~TestFiles() {
  std::filesystem::remove_all(directory_);
}

std::string TestFiles::Write(const std::string& name, const std::string& text, unsigned mode) {
  const std::string path = directory_ + "/" + name;
  std::ofstream(path) << text;
  EXPECT_EQ(chmod(path.c_str(), mode), 0);
  return path;
}

}  // namespace atl::http
