#include "runtime/base/standard_streams.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

namespace atl {
namespace {

// Runs `holds` in a child that has closed the standard descriptors in the bits of `closed`. Returns
// 0 if it holds.
template <typename Check>
int InChild(unsigned closed, const Check& holds) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    for (int fd = 0; fd < 3; ++fd) {
      if ((closed >> fd & 1) != 0) ::close(fd);
    }
    OpenStandardStreams();
    ::_exit(holds() ? 0 : 1);
  }
  int status = -1;
  EXPECT_EQ(::waitpid(pid, &status, 0), pid);
  return status;
}

TEST(StandardStreamsTest, WhatIsClosedIsOpened) {
  for (unsigned closed = 0; closed < 8; ++closed) {
    EXPECT_EQ(InChild(closed,
                      [] {
                        for (int fd = 0; fd < 3; ++fd) {
                          if (::fcntl(fd, F_GETFD) != 0) return false;
                        }
                        return ::open("/", O_PATH) > 2;
                      }),
              0)
        << closed;
  }
}

TEST(StandardStreamsTest, WhatIsOpenStays) {
  struct stat before[3];
  for (int fd = 0; fd < 3; ++fd) ASSERT_EQ(::fstat(fd, &before[fd]), 0);
  EXPECT_EQ(InChild(0,
                    [&before] {
                      for (int fd = 0; fd < 3; ++fd) {
                        struct stat now;
                        if (::fstat(fd, &now) != 0 || now.st_ino != before[fd].st_ino) return false;
                      }
                      return true;
                    }),
            0);
}

TEST(StandardStreamsTest, NothingComesAndNothingIsWritten) {
  EXPECT_EQ(InChild(7,
                    [] {
                      char byte;
                      return ::read(0, &byte, 1) == 0 && ::write(1, "x", 1) == -1 &&
                             errno == EBADF && ::write(2, "x", 1) == 1;
                    }),
            0);
}

}  // namespace
}  // namespace atl
