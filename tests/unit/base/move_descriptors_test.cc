#include "runtime/base/move_descriptors.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <functional>
#include <string>

#include "runtime/base/program.h"
#include "runtime/base/sys.h"

namespace atl {
namespace {

// Runs `check` in a child, because descriptor numbers belong to the whole process.
void WithOwnNumbers(const std::function<void()>& check) {
  const pid_t child = ::fork();
  if (child == 0) {
    check();
    ::_exit(testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

// Opens a file that contains `text` at this number.
void Put(int number, const std::string& text) {
  const UniqueFd file(::memfd_create("test", MFD_CLOEXEC));
  ASSERT_EQ(::write(file.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
  ASSERT_EQ(::dup3(file.get(), number, O_CLOEXEC), number);
}

std::string At(int number) {
  char text[16];
  const ssize_t n = ::pread(number, text, sizeof text, 0);
  return n < 0 ? "closed" : std::string(text, static_cast<size_t>(n));
}

bool StaysOpen(int number) {
  const int flags = ::fcntl(number, F_GETFD);
  return flags >= 0 && (flags & FD_CLOEXEC) == 0;
}

TEST(MoveDescriptors, MovesOntoNumbersThatAreSourcesToo) {
  WithOwnNumbers([] {
    Put(50, "a");
    Put(51, "b");
    Put(52, "c");
    Put(53, "other");
    ASSERT_EQ(::fcntl(53, F_SETFD, 0), 0);
    std::array<DescriptorMove, 4> moves{{{51, 50}, {50, 51}, {50, 55}, {52, 52}}};
    ASSERT_TRUE(MoveDescriptors(moves).has_value());
    EXPECT_EQ(At(50), "b");
    EXPECT_EQ(At(51), "a");
    EXPECT_EQ(At(55), "a");
    EXPECT_EQ(At(52), "c");
    for (const int number : {50, 51, 52, 55}) EXPECT_TRUE(StaysOpen(number)) << number;
    for (int number = 3; number < 1000; ++number) {
      const bool target = number == 50 || number == 51 || number == 52 || number == 55;
      EXPECT_EQ(StaysOpen(number), target) << number;
    }
  });
}

TEST(MoveDescriptors, KeepsOneAboveAllTargets) {
  WithOwnNumbers([] {
    Put(50, "program");
    Put(51, "a");
    std::array<DescriptorMove, 3> moves{{{50, kKeptAbove}, {51, 50}, {51, 0}}};
    ASSERT_TRUE(MoveDescriptors(moves).has_value());
    EXPECT_EQ(moves[0].to, kKeptAbove);
    EXPECT_GT(moves[0].from, 50);
    EXPECT_EQ(At(moves[0].from), "program");
    EXPECT_FALSE(StaysOpen(moves[0].from));
    EXPECT_EQ(At(50), "a");
    EXPECT_EQ(At(0), "a");
  });
}

TEST(MoveDescriptors, SaysWhatIsNotOpen) {
  WithOwnNumbers([] {
    ::close(60);
    std::array<DescriptorMove, 1> moves{{{60, 50}}};
    const Status placed = MoveDescriptors(moves);
    ASSERT_FALSE(placed.has_value());
    EXPECT_EQ(placed.error().error_number(), EBADF);
  });
}

// A spawned program finds each descriptor at its number, whatever that number means in this
// process.
TEST(MoveDescriptors, ASpawnedProgramFindsThemWhereItWasTold) {
  WithOwnNumbers([] {
    Put(50, "a");
    Put(51, "b");
    auto pipe = sys::MakePipe();
    ASSERT_TRUE(pipe.has_value());
    const auto pid = Spawn({"/bin/sh",
                            {"sh", "-c", "cat /dev/fd/50 /dev/fd/51"},
                            {"PATH=/usr/bin:/bin"},
                            {{pipe->write.get(), 1}, {51, 50}, {50, 51}}});
    ASSERT_TRUE(pid.has_value()) << pid.error().message();
    pipe->write.reset();
    std::string said;
    char part[16];
    for (ssize_t n; (n = ::read(pipe->read.get(), part, sizeof part)) > 0;) {
      said.append(part, static_cast<size_t>(n));
    }
    EXPECT_EQ(said, "ba");
    int status = 0;
    EXPECT_EQ(::waitpid(*pid, &status, 0), *pid);
    EXPECT_EQ(status, 0);
  });
}

}  // namespace
}  // namespace atl
