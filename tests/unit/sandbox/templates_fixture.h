// Sandboxes with templates, among fakes. The test plays execd: its answer to a preparation comes
// through a socket of the test's.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/sandbox/stock/templates.h"
#include "tests/unit/sandbox/sandboxes_fixture.h"

namespace atl::sandbox {

inline constexpr char kReady[] = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
inline constexpr char kUnready[] = "HTTP/1.1 500 X\r\nContent-Length: 8\r\n\r\nexit 3 x";

class TemplatesTest : public SandboxesTest {
 protected:
  std::string Make(uint32_t stock = 1) {
    TemplateRecord record;
    record.image = "busybox";
    record.entrypoint = {"server"};
    record.env = {{"WHO", "them"}};
    record.stock = stock;
    const auto made = sandboxes->templates.Create(who, record);
    EXPECT_TRUE(made);
    return *made;
  }
  Templates::View View(const std::string& id) { return *sandboxes->templates.Find(kCaller, id); }
  // Completes the oldest requested build of a member, and answers the preparation as its execd.
  std::string BuildOne(const char* answer) {
    for (int i = 0; i < 20 && spawner.builds.empty(); ++i) loop.Pass(50'000);
    EXPECT_FALSE(spawner.builds.empty());
    const std::string id = spawner.builds.front().id;
    const std::string path = sandboxes->registry.SocketPathOf(id);
    ::unlink(path.c_str());
    UniqueFd listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    EXPECT_EQ(::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(::listen(listener.get(), 1), 0);
    execds.push_back(std::move(spawner.AnswerBuild().control));
    loop.Run();
    UniqueFd connection(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    EXPECT_TRUE(connection);
    char request[4096];
    const ssize_t n = ::recv(connection.get(), request, sizeof request, 0);
    asked.assign(request, n > 0 ? static_cast<size_t>(n) : 0);
    EXPECT_EQ(::send(connection.get(), answer, strlen(answer), MSG_NOSIGNAL),
              static_cast<ssize_t>(strlen(answer)));
    connection.reset();
    // One poll for the answer, one for the end of the connection.
    for (int i = 0; i < 2; ++i) loop.Poll();
    loop.Run();
    return id;
  }
  std::string BuildReady() {
    const std::string id = BuildOne(kReady);
    EXPECT_EQ(spawner.AnswerFreeze(), "freeze " + id);
    loop.Run();
    return id;
  }
  // Creates a sandbox, for a create that finds a ready member.
  std::shared_ptr<Answer> Claim(Wanted wanted) {
    auto answer = Create(std::move(wanted));
    EXPECT_FALSE(answer->called);
    EXPECT_TRUE(spawner.AnswerFreeze().starts_with("thaw "));
    EXPECT_TRUE(answer->called && answer->result);
    return answer;
  }
  static Wanted Of(const std::string& id) {
    Wanted wanted;
    wanted.spec.template_id = id;
    wanted.timeout_seconds = 600;
    return wanted;
  }

  std::string asked;
  std::vector<UniqueFd> execds;
};

}  // namespace atl::sandbox
