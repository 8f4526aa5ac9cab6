#include "runtime/http/tls.h"

#include <gtest/gtest.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <unistd.h>

#include "runtime/http/client.h"
#include "tests/unit/http/socket_peer.h"
#include "tests/unit/http/test_certificate.h"

namespace atl::http {
namespace {

std::string ErrorOf(const Result<std::shared_ptr<const TlsContext>>& context) {
  return context ? "none" : context.error().message();
}

TEST(TlsContext, SaysWhatIsWrongWithThePair) {
  const TestCertificate one, other, expired("localhost", -1);
  TestFiles files;
  const std::string certificate = files.Write("cert", one.certificate);
  const std::string key = files.Write("key", one.key);
  const auto load = [](const std::string& a, const std::string& b) {
    return ErrorOf(TlsContext::ForServer(a, b));
  };
  EXPECT_EQ(load(certificate, key), "none");
  const std::string chain = files.Write("chain", one.certificate + other.certificate);
  EXPECT_EQ(load(chain, key), "none");

  EXPECT_NE(
      load(certificate, files.Write("b", other.key)).find("does not match the certificate of"),
      std::string::npos);
  EXPECT_NE(load("/nonexistent", key).find("/nonexistent"), std::string::npos);
  EXPECT_NE(load(certificate, certificate).find("has no private key"), std::string::npos);
  EXPECT_NE(load(key, key).find("has no certificate"), std::string::npos);
  EXPECT_NE(load(certificate, files.Write("locked", one.locked_key)).find("without a passphrase"),
            std::string::npos);
  EXPECT_NE(load(certificate, files.Write("open", one.key, 0604)).find("chmod o-rwx"),
            std::string::npos);
  std::string torn = one.certificate + other.certificate;
  torn[torn.size() - 60] = '*';
  EXPECT_NE(load(files.Write("torn", torn), key).find("the chain of"), std::string::npos);

  const auto late = TlsContext::ForServer(files.Write("late", expired.certificate),
                                          files.Write("late-key", expired.key));
  ASSERT_TRUE(late);
  EXPECT_NE((*late)->warning().find("has expired"), std::string::npos);
  EXPECT_EQ((*TlsContext::ForServer(certificate, key))->warning(), "");
}

TEST(TlsContext, TrustsWhatItIsTold) {
  TestFiles files;
  EXPECT_EQ(ErrorOf(TlsContext::ForClient("")), "none");
  EXPECT_EQ(ErrorOf(TlsContext::ForClient(files.Write("ca", TestCertificate().certificate))),
            "none");
  EXPECT_NE(ErrorOf(TlsContext::ForClient("/nonexistent")), "none");
  EXPECT_NE(ErrorOf(TlsContext::ForClient(files.Write("none", "nothing"))), "none");
}

void Answer(const std::shared_ptr<Exchange>& exchange) {
  Response response;
  response.body = exchange->request().tls ? "encrypted" : "plain";
  exchange->Respond(std::move(response));
}

ServerConfig WithTls() {
  ServerConfig config;
  config.tls = ServerTls();
  return config;
}

std::string Ask(Peer& peer) {
  peer.Send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
  const std::string response = peer.ReadResponse();
  return response.substr(response.find("\r\n\r\n") + 4);
}

TEST(TlsServer, KnowsWhichRequestsAreEncrypted) {
  RunningServer server(Answer, WithTls());
  Peer encrypted = Peer::ConnectTcp(server.port(), true);
  EXPECT_EQ(Ask(encrypted), "encrypted");
  EXPECT_EQ(Ask(encrypted), "encrypted");
  // A connection from this host may be unencrypted.
  Peer plain = Peer::ConnectTcp(server.port(), false);
  EXPECT_EQ(Ask(plain), "plain");
}

// Tries a handshake with a modified client. Returns the number of the alert, 0 for none.
int HandshakeError(uint16_t port, const std::function<void(SSL*)>& adjust) {
  const Peer tcp = Peer::ConnectTcp(port, false);
  SSL_CTX* context = SSL_CTX_new(TLS_client_method());
  // TLS 1.1 needs signatures that OpenSSL refuses above security level 0.
  SSL_CTX_set_security_level(context, 0);
  SSL* ssl = SSL_new(context);
  SSL_set_fd(ssl, tcp.fd());
  adjust(ssl);
  const int result = SSL_connect(ssl);
  SSL_free(ssl);
  SSL_CTX_free(context);
  return result == 1 ? 0 : 1;
}

TEST(TlsServer, SpeaksModernVersionsAndOneProtocol) {
  RunningServer server(Answer, WithTls());
  for (const int version : {TLS1_VERSION, TLS1_1_VERSION, TLS1_2_VERSION, TLS1_3_VERSION}) {
    EXPECT_EQ(HandshakeError(server.port(),
                             [version](SSL* ssl) {
                               SSL_set_min_proto_version(ssl, version);
                               SSL_set_max_proto_version(ssl, version);
                             }),
              version < TLS1_2_VERSION ? 1 : 0)
        << version;
  }
  const auto offer = [&server](std::string_view protocols) {
    return HandshakeError(server.port(), [protocols](SSL* ssl) {
      EXPECT_EQ(SSL_set_alpn_protos(ssl, reinterpret_cast<const unsigned char*>(protocols.data()),
                                    static_cast<unsigned>(protocols.size())),
                0);
    });
  };
  EXPECT_EQ(offer("\x02h2"), 1);
  EXPECT_EQ(offer("\x02h2\x08http/1.1"), 0);
}

std::string Get(const std::string& url, std::shared_ptr<const TlsContext> trust) {
  const auto client = Client::Create(url, std::move(trust));
  EXPECT_TRUE(client);
  const auto response = (*client)->Send({});
  return response ? response->body : response.error().message();
}

TEST(TlsClient, BelievesOnlyTheServerThatItMeans) {
  ServerConfig config = WithTls();
  config.host = "0.0.0.0";
  RunningServer server(Answer, config);
  const std::string port = std::to_string(server.port());
  EXPECT_EQ(Get("https://127.0.0.1:" + port, ClientTrust()), "encrypted");
  EXPECT_EQ(Get("https://localhost:" + port, ClientTrust()), "encrypted");
  // A certificate of another authority, and one of the right authority for another name.
  EXPECT_NE(Get("https://127.0.0.1:" + port, nullptr).find("is not accepted: self-signed"),
            std::string::npos);
  EXPECT_NE(Get("https://127.0.0.2:" + port, ClientTrust()).find("IP address mismatch"),
            std::string::npos);

  const TestCertificate expired("localhost", -1);
  TestFiles files;
  const std::string certificate = files.Write("cert", expired.certificate);
  auto late = TlsContext::ForServer(certificate, files.Write("key", expired.key));
  auto trust = TlsContext::ForClient(certificate);
  ASSERT_TRUE(late && trust);
  server.OnLoop([&] { server.server().SetTls(*late); });
  EXPECT_NE(Get("https://127.0.0.1:" + port, *trust).find("expired"), std::string::npos);
}

TEST(TlsClient, SaysThatAServerHasNone) {
  RunningServer server(Answer);
  const std::string said = Get("https://127.0.0.1:" + std::to_string(server.port()), ClientTrust());
  EXPECT_NE(said.find("TLS handshake"), std::string::npos) << said;
}

std::string CertificateOf(const Peer& peer) {
  X509* certificate = SSL_get1_peer_certificate(peer.ssl());
  char name[64] = "";
  X509_NAME_get_text_by_NID(X509_get_subject_name(certificate), NID_commonName, name, sizeof name);
  X509_free(certificate);
  return name;
}

TEST(TlsServer, TakesANewCertificateForNewConnections) {
  RunningServer server(Answer, WithTls());
  Peer old = Peer::ConnectTcp(server.port(), true);
  EXPECT_EQ(Ask(old), "encrypted");
  const TestCertificate pair("other");
  TestFiles files;
  auto next =
      TlsContext::ForServer(files.Write("cert", pair.certificate), files.Write("key", pair.key));
  ASSERT_TRUE(next);
  server.OnLoop([&] { server.server().SetTls(*next); });
  Peer young = Peer::ConnectTcp(server.port(), true);
  EXPECT_EQ(CertificateOf(old), "localhost");
  EXPECT_EQ(CertificateOf(young), "other");
  EXPECT_EQ(Ask(young), "encrypted");
  EXPECT_EQ(Ask(old), "encrypted");
}

TEST(TlsServer, AHandshakeTakesItsTimeAndNoMore) {
  ServerConfig config = WithTls();
  config.handshake_timeout_seconds = 1;
  RunningServer server(Answer, config);
  Peer silent = Peer::ConnectTcp(server.port(), false);
  Peer slow = Peer::ConnectTcp(server.port(), false);
  slow.Send("\x16\x03\x01");
  EXPECT_EQ(silent.ReadToEnd(), "");
  EXPECT_EQ(slow.ReadToEnd(), "");
}

TEST(TlsServer, AHandshakeCountsAsAConnectionAndGivesWay) {
  ServerConfig config = WithTls();
  config.max_connections = 2;
  RunningServer server(Answer, config);
  Peer one = Peer::ConnectTcp(server.port(), false);
  Peer two = Peer::ConnectTcp(server.port(), true);
  EXPECT_EQ(Ask(two), "encrypted");
  Peer three = Peer::ConnectTcp(server.port(), true);
  EXPECT_EQ(Ask(three), "encrypted");
  EXPECT_EQ(one.ReadToEnd(), "");
  EXPECT_EQ(Ask(two), "encrypted");
}

TEST(TlsServer, GarbageHurtsNobody) {
  RunningServer server(Answer, WithTls());
  Peer good = Peer::ConnectTcp(server.port(), true);
  for (const std::string& bytes : {std::string("\x16\x03\x01\xff\xff") + std::string(70000, 'x'),
                                   std::string("\x16\x03\x01\x00\x05\x02\x00\x00\x01\x00", 10)}) {
    Peer bad = Peer::ConnectTcp(server.port(), false);
    (void)bad.TrySend(bytes);
    bad.ReadToEnd();
  }
  // Sends the bad record within an established session.
  Peer broken = Peer::ConnectTcp(server.port(), true);
  const std::string record = std::string("\x17\x03\x03\x00\x20", 5) + std::string(32, 'x');
  EXPECT_EQ(write(broken.fd(), record.data(), record.size()), 37);
  broken.ReadToEnd();
  EXPECT_EQ(Ask(good), "encrypted");
}

}  // namespace
}  // namespace atl::http
