// Connections that an interceptor takes over instead of having them spliced.
#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <string>

#include "netpolicy/splice/interceptor.h"
#include "tests/unit/netpolicy/splice_lab.h"

namespace atl::netpolicy {
namespace {

using namespace atl::testing;  // NOLINT(google-build-using-namespace): the lab

struct FakeInterceptor final : Interceptor {
  bool Wants(std::string_view name, bool tls, uint16_t port) override {
    return name == wanted && tls == of_tls && port == 443;
  }
  Result<UniqueFd> Take(InterceptedConnection connection) override {
    if (refuses) return Fail(Code::kUnavailable, "it has ended");
    auto lease = sys::UnixPair(SOCK_STREAM);
    leases.push_back(std::move(lease->b));
    taken.push_back(std::move(connection));
    return std::move(lease->a);
  }

  std::string wanted = "a.example";
  bool of_tls = true;
  bool refuses = false;
  std::deque<InterceptedConnection> taken;
  std::deque<UniqueFd> leases;
};

class InterceptTest : public SpliceTest {
 protected:
  void OpenWith(const char* source = "127.0.0.1") {
    Open();
    proxy->SetInterceptor(ParseEndpoint(source, 0)->AddressBytes(), interceptor);
  }

  const std::shared_ptr<FakeInterceptor> interceptor = std::make_shared<FakeInterceptor>();
};

TEST_F(InterceptTest, HandsOverUnreadAndEndsWithTheLease) {
  Listener listener;
  Serve("a.example", 1, listener);
  OpenWith();
  Peer client = Client();
  const std::string hello = TlsHello("A.Example");
  client.Send(hello.substr(0, 7));
  client.Send(hello.substr(7));
  Peer server = AcceptAt(listener);
  ASSERT_TRUE(Until([&] { return interceptor->taken.size() == 1; }));
  EXPECT_EQ(interceptor->taken[0].name, "a.example");
  EXPECT_TRUE(interceptor->taken[0].tls);
  Peer as_server(std::move(interceptor->taken[0].client));
  Peer as_client(std::move(interceptor->taken[0].server));
  ExpectGets(as_server, hello);
  as_server.Send("in the server's place");
  ExpectGets(client, "in the server's place");
  as_client.Send("in the client's");
  ExpectGets(server, "in the client's");
  EXPECT_EQ(proxy->connections(), 1U);
  as_server = {};
  as_client = {};
  interceptor->leases.clear();
  ExpectEnd(client);
  ExpectEnd(server);
  EXPECT_TRUE(Until([&] { return proxy->connections() == 0; }));
}

TEST_F(InterceptTest, SplicesWhatIsNotWantedWhole) {
  Listener listener;
  Serve("b.example", 1, listener);
  OpenWith();
  Peer client = Client();
  client.Send(TlsHello("b.example") + TlsKeyExchange() + "and more");
  Peer server = AcceptAt(listener);
  ExpectGets(server, TlsHello("b.example") + TlsKeyExchange() + "and more");
  server.Send("answer");
  ExpectGets(client, "answer");
  EXPECT_TRUE(interceptor->taken.empty());
}

TEST_F(InterceptTest, SplicesRequestsWhenOnlyTlsIsWanted) {
  Listener listener;
  Serve("a.example", 1, listener);
  OpenWith();
  Peer client = Client();
  const std::string request = "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n";
  client.Send(request);
  Peer server = AcceptAt(listener);
  ExpectGets(server, request);
  EXPECT_TRUE(interceptor->taken.empty());
}

TEST_F(InterceptTest, LeavesOtherSourcesAlone) {
  Listener listener;
  Serve("a.example", 1, listener);
  OpenWith("127.0.0.8");
  Peer client = Client("127.0.0.9");
  client.Send(TlsHello("a.example"));
  Peer server = AcceptAt(listener);
  ExpectGets(server, TlsHello("a.example"));
  EXPECT_TRUE(interceptor->taken.empty());
}

TEST_F(InterceptTest, LetsNothingThroughWithoutIts) {
  Listener listener;
  Serve("a.example", 1, listener);
  OpenWith();
  interceptor->refuses = true;
  Peer client = Client();
  client.Send(TlsHello("a.example"));
  ExpectReset(client);
  Peer server = AcceptAt(listener);
  ExpectReset(server);
  EXPECT_EQ(server.got, "");
}

TEST_F(InterceptTest, APolicyThatClosesCutsIt) {
  Listener listener;
  Serve("a.example", 1, listener);
  OpenWith();
  Peer client = Client();
  client.Send(TlsHello("a.example"));
  Peer server = AcceptAt(listener);
  ASSERT_TRUE(Until([&] { return interceptor->taken.size() == 1; }));
  proxy->Rejudge(gate.last_source);
  EXPECT_EQ(proxy->connections(), 1U) << "it may go on";
  gate.allowed.clear();
  proxy->Rejudge(gate.last_source);
  EXPECT_TRUE(Until([&] { return proxy->connections() == 0; }));
  // They end although the interceptor still holds both.
  ExpectEnd(client);
  ExpectEnd(server);
}

TEST_F(InterceptTest, TheEndOfTheSourceIsTheEndOfItsInterceptor) {
  OpenWith();
  std::weak_ptr<FakeInterceptor> held = interceptor;
  const long before = held.use_count();
  proxy->Forget(ParseEndpoint("127.0.0.1", 0)->AddressBytes());
  EXPECT_EQ(held.use_count(), before - 1);
}

}  // namespace
}  // namespace atl::netpolicy
