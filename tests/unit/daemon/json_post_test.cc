#include "runtime/daemon/json_post.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <string>
#include <string_view>
#include <thread>

#include "runtime/base/sys.h"
#include "runtime/base/unique_fd.h"

namespace atl::daemon {
namespace {

constexpr int64_t kLong = 20'000'000;

class JsonPostTest : public testing::Test {
 protected:
  JsonPostTest() : listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* const plain = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(::bind(listener.get(), plain, size), 0);
    EXPECT_EQ(::listen(listener.get(), 1), 0);
    EXPECT_EQ(::getsockname(listener.get(), plain, &size), 0);
    url = "http://127.0.0.1:" + std::to_string(ntohs(address.sin_port));
  }
  // Posts to a server that answers `status`. Returns the request that arrived.
  std::string PostTo(const std::string& path, int status) {
    std::string request;
    std::thread server([&] {
      const UniqueFd peer(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
      char buffer[4096];
      while (!request.ends_with("{}")) {
        const ssize_t got = ::read(peer.get(), buffer, sizeof buffer);
        if (got <= 0) break;
        request.append(buffer, static_cast<size_t>(got));
      }
      const std::string answer =
          "HTTP/1.1 " + std::to_string(status) + " x\r\nContent-Length: 0\r\n\r\n";
      EXPECT_TRUE(sys::WriteAll(peer.get(), answer));
    });
    http::Headers headers;
    headers.Set("X-Tenant", "one");
    const auto answered = PostJson(url + path, headers, "{}", kLong);
    if (!answered)
      ::shutdown(listener.get(),
                 SHUT_RDWR);  // unblocks the accept, because the client may not have connected
    server.join();
    EXPECT_EQ(answered.value_or(0), status);
    return request;
  }

  UniqueFd listener;
  std::string url;
};

TEST_F(JsonPostTest, IsPostedWhereItBelongs) {
  const std::string request = PostTo("/v1/metrics", 503);
  EXPECT_TRUE(request.starts_with("POST /v1/metrics HTTP/1.1\r\n")) << request;
  EXPECT_NE(request.find("\r\nX-Tenant: one\r\n"), std::string::npos) << request;
  EXPECT_NE(request.find("\r\nContent-Type: application/json\r\n"), std::string::npos) << request;
}

TEST_F(JsonPostTest, WithoutAPathToTheRoot) {
  EXPECT_TRUE(PostTo("", 204).starts_with("POST / HTTP/1.1\r\n"));
}

TEST_F(JsonPostTest, GivesUp) {
  EXPECT_FALSE(PostJson(url, {}, "{}", 20'000));  // nobody accepts
  EXPECT_EQ(PostJson("nowhere", {}, "{}", kLong).error().code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace atl::daemon
