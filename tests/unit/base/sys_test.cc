#include "runtime/base/sys.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace atl {
namespace {

namespace fs = std::filesystem;

TEST(ListSubdirectoriesTest, TellsNeitherFilesNorLinks) {
  std::string pattern = fs::temp_directory_path() / "subdirectories.XXXXXX";
  const fs::path top = ::mkdtemp(pattern.data());
  fs::create_directories(top / "one/below");
  fs::create_directory(top / "two");
  std::ofstream(top / "file") << "text";
  fs::create_directory_symlink("one", top / "link");
  auto names = sys::ListSubdirectories(sys::Open(top, O_RDONLY | O_DIRECTORY)->get());
  ASSERT_TRUE(names);
  std::sort(names->begin(), names->end());
  EXPECT_EQ(*names, (std::vector<std::string>{"one", "two"}));
  fs::remove_all(top);
}

// The kernel may write only a part and report success, for instance on a full file system.
TEST(WriteFileAtTest, APartIsAnError) {
  std::string pattern = fs::temp_directory_path() / "part.XXXXXX";
  const UniqueFd file(::mkstemp(pattern.data()));
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit four{4, 4};
    ::signal(SIGXFSZ, SIG_IGN);
    const bool limited = ::setrlimit(RLIMIT_FSIZE, &four) == 0;
    const Status written = sys::WriteFileAt(AT_FDCWD, pattern, "eight...");
    ::_exit(limited && !written && written.error().error_number() == ENOSPC ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(fs::file_size(pattern), 4U);
  fs::remove(pattern);
}

TEST(SendMessageTest, APartIsAnError) {
  const auto pair = sys::UnixPair(SOCK_STREAM | SOCK_NONBLOCK);
  ASSERT_TRUE(pair);
  EXPECT_TRUE(sys::SendMessage(pair->a.get(), "whole"));
  const Status sent = sys::SendMessage(pair->a.get(), std::string(64 << 20, 'x'));
  ASSERT_FALSE(sent);
  EXPECT_EQ(sent.error().error_number(), EMSGSIZE);
}

TEST(SendMessageTest, OneThatHasClosedIsGoneWhateverItHasNotRead) {
  auto pair = sys::UnixPair(SOCK_SEQPACKET);
  ASSERT_TRUE(pair);
  ASSERT_TRUE(sys::SendMessage(pair->a.get(), "never read"));
  ASSERT_TRUE(sys::SendMessage(pair->b.get(), "said before"));
  pair->b.reset();
  const Status sent = sys::SendMessage(pair->a.get(), "too late");
  ASSERT_FALSE(sent);
  EXPECT_EQ(sent.error().error_number(), EPIPE);
  EXPECT_EQ(sys::ReceiveMessage(pair->a.get(), 64)->bytes, "said before");
  EXPECT_EQ(sys::ReceiveMessage(pair->a.get(), 64)->bytes, "");
}

}  // namespace
}  // namespace atl
