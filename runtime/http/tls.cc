#include "runtime/http/tls.h"

#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <sys/stat.h>

#include "runtime/base/sys.h"

namespace atl::http {
namespace {

constexpr size_t kMaxPemFile = 1 << 20;
// The wire form of RFC 7301: each name after its length.
constexpr unsigned char kAlpn[] = "\x08http/1.1";
constexpr unsigned kAlpnSize = sizeof kAlpn - 1;

template <typename T, void (*Free)(T*)>
struct Freer {
  void operator()(T* object) const { Free(object); }
};
using Certificate = std::unique_ptr<X509, Freer<X509, X509_free>>;
using Key = std::unique_ptr<EVP_PKEY, Freer<EVP_PKEY, EVP_PKEY_free>>;
struct BioFreer {
  void operator()(BIO* bio) const { BIO_free(bio); }
};
using Bio = std::unique_ptr<BIO, BioFreer>;

// Reports OpenSSL's first error, which is the cause; later ones are its consequences.
Error TlsError(const std::string& what) {
  const unsigned long number = ERR_get_error();
  const char* reason = ERR_reason_error_string(number);
  ERR_clear_error();
  return {Code::kInvalidArgument, what + ": " + (reason != nullptr ? reason : "cannot be used")};
}

Result<std::string> ReadPem(const std::string& path, bool secret) {
  ATOLL_ASSIGN(const UniqueFd file, sys::Open(path, O_RDONLY));
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) return FailSys("fstat " + path);
  if (secret && (info.st_mode & 0007) != 0) {
    return Fail(
        Code::kFailedPrecondition,
        path + " is a private key that every user of this host can read: chmod o-rwx " + path);
  }
  return sys::ReadAll(file.get(), kMaxPemFile);
}

Bio Wrap(const std::string& pem) {
  return Bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
}

// Without this callback OpenSSL would ask the terminal for a passphrase.
int NoPassphrase(char*, int, int, void*) {
  return 0;
}

// `path` names the text in errors.
Status UseCertificate(SSL_CTX* context, const std::string& pem, const std::string& path,
                      std::string* warning) {
  const Bio bio = Wrap(pem);
  const Certificate leaf(PEM_read_bio_X509(bio.get(), nullptr, NoPassphrase, nullptr));
  if (!leaf) return Fail(TlsError(path + " has no certificate in PEM form"));
  if (SSL_CTX_use_certificate(context, leaf.get()) != 1) {
    return Fail(TlsError("the certificate of " + path));
  }
  while (X509* next = PEM_read_bio_X509(bio.get(), nullptr, NoPassphrase, nullptr)) {
    if (SSL_CTX_add0_chain_cert(context, next) == 1) continue;  // the context owns it now
    X509_free(next);
    return Fail(TlsError("the chain of " + path));
  }
  // The loop ends at the first text that is not a certificate. That must be the end of the file.
  const bool at_end = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  if (!at_end) return Fail(TlsError("the chain of " + path));
  ERR_clear_error();
  if (X509_cmp_current_time(X509_get0_notAfter(leaf.get())) < 0) {
    *warning = "the certificate of " + path + " has expired: clients will refuse it";
  } else if (X509_cmp_current_time(X509_get0_notBefore(leaf.get())) > 0) {
    *warning = "the certificate of " + path + " is not valid yet: clients will refuse it";
  }
  return {};
}

Status UseKey(SSL_CTX* context, const std::string& pem, const std::string& path,
              const std::string& certificate) {
  const Bio bio = Wrap(pem);
  const Key key(PEM_read_bio_PrivateKey(bio.get(), nullptr, NoPassphrase, nullptr));
  if (!key) {
    return Fail(TlsError(path + " has no private key in PEM form without a passphrase"));
  }
  if (SSL_CTX_use_PrivateKey(context, key.get()) != 1 || SSL_CTX_check_private_key(context) != 1) {
    return Fail(
        TlsError("the key of " + path + " does not match the certificate of " + certificate));
  }
  return {};
}

// Refuses a client that offers only other protocols (RFC 7301 section 3.2).
int ChooseProtocol(SSL*, const unsigned char** chosen, unsigned char* size,
                   const unsigned char* offered, unsigned offered_size, void*) {
  unsigned char* found = nullptr;
  if (SSL_select_next_proto(&found, size, kAlpn, kAlpnSize, offered, offered_size) !=
      OPENSSL_NPN_NEGOTIATED) {
    return SSL_TLSEXT_ERR_ALERT_FATAL;
  }
  *chosen = found;
  return SSL_TLSEXT_ERR_OK;
}

}  // namespace

TlsContext::~TlsContext() {
  SSL_CTX_free(context_);
}

int64_t TlsContext::not_after() const {
  const X509* const leaf = SSL_CTX_get0_certificate(context_);
  tm ends{};
  if (leaf == nullptr || ASN1_TIME_to_tm(X509_get0_notAfter(leaf), &ends) != 1) return 0;
  return ::timegm(&ends);
}

Result<std::shared_ptr<TlsContext>> TlsContext::NewServer() {
  ERR_clear_error();
  std::shared_ptr<TlsContext> made(new TlsContext(SSL_CTX_new(TLS_server_method())));
  SSL_CTX* context = made->context_;
  if (context == nullptr) return Fail(TlsError("a TLS context"));
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
                                   SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_PRIORITIZE_CHACHA);
  // A record that could not be written is retried from a buffer that may have moved. Idle
  // connections release their buffers (34 KiB).
  SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                SSL_MODE_RELEASE_BUFFERS);
  // Tickets need no session cache.
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_alpn_select_cb(context, ChooseProtocol, nullptr);
  return made;
}

Result<std::shared_ptr<const TlsContext>> TlsContext::ForServer(const std::string& certificate,
                                                                const std::string& key) {
  ATOLL_ASSIGN(const std::shared_ptr<TlsContext> made, NewServer());
  ATOLL_ASSIGN(const std::string chain, ReadPem(certificate, false));
  ATOLL_TRY(UseCertificate(made->context_, chain, certificate, &made->warning_));
  ATOLL_ASSIGN(std::string secret, ReadPem(key, true));
  const Status used = UseKey(made->context_, secret, key, certificate);
  OPENSSL_cleanse(secret.data(), secret.size());
  if (!used) return Fail(used.error());
  return std::shared_ptr<const TlsContext>(made);
}

Result<std::shared_ptr<const TlsContext>> TlsContext::ForServerText(const std::string& certificate,
                                                                    const std::string& key,
                                                                    const std::string& name) {
  ATOLL_ASSIGN(const std::shared_ptr<TlsContext> made, NewServer());
  ATOLL_TRY(UseCertificate(made->context_, certificate, name, &made->warning_));
  ATOLL_TRY(UseKey(made->context_, key, name, name));
  return std::shared_ptr<const TlsContext>(made);
}

Result<std::shared_ptr<const TlsContext>> TlsContext::ForClient(const std::string& authorities) {
  ERR_clear_error();
  std::shared_ptr<const TlsContext> made(new TlsContext(SSL_CTX_new(TLS_client_method())));
  SSL_CTX* context = made->context_;
  if (context == nullptr) return Fail(TlsError("a TLS context"));
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
  // This function returns 0 on success.
  if (SSL_CTX_set_alpn_protos(context, kAlpn, kAlpnSize) != 0) return Fail(TlsError("ALPN"));
  const int trusted = authorities.empty() ? SSL_CTX_set_default_verify_paths(context)
                                          : SSL_CTX_load_verify_file(context, authorities.c_str());
  if (trusted != 1) {
    return Fail(TlsError(authorities.empty() ? "the certificate authorities of this host"
                                             : "the certificate authorities of " + authorities));
  }
  return made;
}

}  // namespace atl::http
