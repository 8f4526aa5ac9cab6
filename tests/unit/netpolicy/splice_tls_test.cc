// The splice proxy and TLS: names, no names, encrypted names, and second hellos.
#include "tests/unit/netpolicy/splice_lab.h"
#include "tests/unit/netpolicy/tls_bytes.h"

namespace atl::testing {
namespace {

TEST_F(SpliceTest, RefusesAnotherNameInASecondHello) {
  Listener listener;
  Serve("a.example", 1, listener);
  gate.allowed.insert("b.example");
  Open();
  const std::string change = TlsRecord("\x01", 20, 0x0303);
  Peer honest = Client();
  honest.Send(TlsHello("a.example"));
  Peer server = AcceptAt(listener);
  ExpectGets(server, TlsHello("a.example"));
  server.Send("again");
  ExpectGets(honest, "again");
  const std::string follows = TlsRecord("what follows", 23);
  honest.Send(change + TlsHello("a.example") + follows);
  ExpectGets(server, change + TlsHello("a.example") + follows);

  Peer liar = Client();
  liar.Send(TlsHello("a.example") + change + TlsHello("b.example"));
  Peer other = AcceptAt(listener);
  ExpectGets(other, TlsHello("a.example") + change);
  ExpectEnd(other);
  EXPECT_EQ(gate.denials.size(), 1U);
}

// Each of these is skipped, or parsed differently, by some TLS stack.
TEST_F(SpliceTest, FindsASecondHelloBehindWhateverServersSkip) {
  Listener listener;
  Serve("a.example", 1, listener);
  Open();
  const std::string change = TlsRecord("\x01", 20, 0x0303);
  const std::string hello = TlsHello("b.example");
  const std::string message = hello.substr(5);
  for (const std::string& second :
       {TlsRecord("") + hello, TlsRecord("", 23) + hello, TlsRecord("", 20) + hello,
        TlsRecord("early", 23) + hello, TlsRecord(std::string(2, '\1'), 21) + hello,
        TlsRecord("?", 24) + hello, TlsRecord(message.substr(0, 3)) + TlsRecord(message.substr(3)),
        TlsRecord(message.substr(0, 9)) + change + TlsRecord(message.substr(9)),
        TlsRecord(message.substr(0, 9)) + TlsRecord("early", 23) + TlsRecord(message.substr(9)),
        TlsHello("a.example") + hello, TlsRecord(std::string(4, '\0')) + hello}) {
    Peer client = Client();
    client.Send(TlsHello("a.example") + second);
    Peer server = AcceptAt(listener);
    ExpectEnd(server);
    EXPECT_EQ(server.got.find("b.example"), std::string::npos);
  }
  EXPECT_EQ(gate.denials.size(), 11U);
}

// The proxy moves records of early data one by one while a hello could still follow.
TEST_F(SpliceTest, LosesNothingOfEarlyData) {
  Listener listener;
  Serve("a.example", 1, listener);
  Open();
  const std::string hello = TlsHello("a.example", TlsExtension(42, ""));
  Peer client = Client();
  client.Send(hello);
  Peer server = AcceptAt(listener);
  ExpectGets(server, hello);
  std::string all;
  for (int i = 0; i < 64; ++i) {
    const std::string data = TlsRecord(std::string(16000, static_cast<char>(i)), 23) +
                             TlsRecord(std::string(1, 'x'), 23);
    client.Send(data);
    ExpectGets(server, data);
  }
  client.Send(TlsHello("b.example"));
  ExpectEnd(server);
  EXPECT_EQ(server.got, "");
}

TEST_F(SpliceTest, RefusesTlsWithoutAName) {
  Open();
  Peer client = Client();
  client.Send(TlsRecord(TlsMessage(TlsBody(TlsExtension(16, "")))));
  ExpectAlert(client, 112);
  Peer malformed = Client();
  malformed.Send(TlsHello("192.0.2.1"));
  ExpectAlert(malformed, 50);
  EXPECT_TRUE(dialled.empty());
  EXPECT_EQ(gate.denials.size(), 2U);
}

TEST_F(SpliceTest, RefusesHiddenNames) {
  Listener listener;
  Serve("a.example", 1, listener);
  Open();
  for (const size_t type : {0xfe0d, 0xffce}) {
    Peer client = Client();
    client.Send(TlsHello("a.example", TlsExtension(type, "hidden")));
    ExpectAlert(client, 49);
  }
  EXPECT_EQ(LastReason(), "encrypted TLS client hello (ECH)");
  EXPECT_TRUE(dialled.empty());
}

TEST_F(SpliceTest, PassesUnnamedOnesIfTheOperatorSaysSo) {
  Listener named, unnamed;
  Serve("a.example", 1, named);
  servers["198.51.100.200:443"] = unnamed.endpoint();
  gate.unnamed = true;
  Open();
  Peer client = Client();
  client.Send(TlsRecord(TlsMessage(TlsBody(""))));
  AcceptAt(unnamed);
  Peer hidden = Client();
  hidden.Send(TlsHello("a.example", TlsExtension(0xfe0d, "hidden")));
  AcceptAt(named);
  Peer denied = Client();
  denied.Send(TlsHello("evil.example", TlsExtension(0xfe0d, "hidden")));
  ExpectAlert(denied, 49);
}

TEST_F(SpliceTest, CutsHiddenNamesWhenTheyMayNotBeAnyMore) {
  Listener listener;
  Serve("a.example", 1, listener);
  gate.unnamed = true;
  Open();
  Peer client = Client();
  client.Send(TlsHello("a.example", TlsExtension(0xfe0d, "hidden")));
  AcceptAt(listener);
  gate.unnamed = false;
  proxy->Rejudge(netpolicy::ParseEndpoint("127.0.0.1", 0)->AddressBytes());
  ExpectReset(client);
}

}  // namespace
}  // namespace atl::testing
