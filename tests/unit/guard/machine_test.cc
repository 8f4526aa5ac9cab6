// Tests how QEMU is asked for a machine, and what becomes of a guest's words.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

#include "runtime/guard/vm/console.h"
#include "runtime/guard/vm/guest.h"
#include "runtime/guard/vm/qemu.h"

namespace atl::guard {
namespace {

bool Has(const std::vector<std::string>& all, const std::string& one, const std::string& next) {
  for (size_t i = 0; i + 1 < all.size(); ++i) {
    if (all[i] == one && all[i + 1] == next) return true;
  }
  return false;
}

wire::Hardware SomeHardware() {
  return {.memory_bytes = 256 << 20, .processors = 2, .kvm = false, .qemu = {}, .virtiofsd = {}};
}

constexpr QemuDescriptors kDescriptors{.vsock = 8, .root = 9, .volumes = 10, .tap = 6};

TEST(Qemu, HasTheLimitsOfTheMachineAndItsDevices) {
  const auto all = QemuArguments(SomeHardware(), kDescriptors, 2'400'000);
  EXPECT_TRUE(Has(all, "-m", "262144k"));
  EXPECT_TRUE(Has(all, "-smp", "2"));
  EXPECT_TRUE(Has(all, "-object", "memory-backend-memfd,id=memory,share=on,size=262144k"));
  EXPECT_TRUE(Has(all, "-chardev", "socket,id=vsock,fd=8"));
  EXPECT_TRUE(Has(all, "-chardev", "socket,id=root,fd=9"));
  EXPECT_TRUE(Has(all, "-chardev", "socket,id=volumes,fd=10"));
  EXPECT_TRUE(Has(all, "-netdev", "tap,id=net,vhost=off,fd=6"));
  EXPECT_TRUE(Has(all, "-device", "virtio-net-device,netdev=net"));
}

TEST(Qemu, SaysNoRateOfTheClockThatNobodyKnows) {
  for (const std::string& one : QemuArguments(SomeHardware(), kDescriptors, 0)) {
    EXPECT_EQ(one.find("tsc_early_khz"), std::string::npos) << one;
  }
}

TEST(Qemu, EmulatesOnlyWithoutKvm) {
  wire::Hardware hardware = SomeHardware();
  const std::vector<std::string> emulated = QemuArguments(hardware, kDescriptors, 5);
  EXPECT_TRUE(Has(emulated, "-cpu", "max"));
  hardware.kvm = true;
  const std::vector<std::string> real = QemuArguments(hardware, kDescriptors, 5);
  EXPECT_TRUE(Has(real, "-accel", "kvm"));
  for (const std::string& one : real) {
    // Both are for processors whose faults and clock are not the host's.
    EXPECT_EQ(one.find("mitigations"), std::string::npos) << one;
    EXPECT_EQ(one.find("tsc_early_khz"), std::string::npos) << one;
  }
}

TEST(Console, KeepsTheLastWordsWithoutControlCharacters) {
  const auto loop = EventLoop::Create();
  Console console(**loop);
  const auto end = console.Open();
  ASSERT_TRUE(end.has_value());
  const std::string said = std::string(10'000, 'x') + "\x1b[2J\r\n\xff last";
  for (size_t at = 0; at < said.size(); at += 1000) {
    ASSERT_GT(::write(end->get(), said.data() + at, std::min<size_t>(1000, said.size() - at)), 0);
  }
  const std::string shown = console.Tail();
  EXPECT_LE(shown.size(), Console::kKept);
  EXPECT_TRUE(shown.ends_with("xxx?[2J\n? last")) << shown.substr(shown.size() - 20);
}

class GuestTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto socket = guest_.Connect();
    ASSERT_TRUE(socket.has_value());
    socket_ = std::move(*socket);
  }
  void Says(const std::string& bytes) {
    ASSERT_EQ(::send(socket_.get(), bytes.data(), bytes.size(), 0),
              static_cast<ssize_t>(bytes.size()));
    for (int i = 0; i < 4; ++i) guest_.Read();
  }
  bool Left() {
    char byte;
    return ::recv(socket_.get(), &byte, 1, MSG_DONTWAIT) == 0;
  }

  std::unique_ptr<EventLoop> loop_ = *EventLoop::Create();
  std::vector<std::string> told_;
  Guest guest_{*loop_,
               {.ready = [this] { told_.push_back("ready"); },
                .ended = [this](int code) { told_.push_back("ended " + std::to_string(code)); },
                .failed = [this](const std::string& why) { told_.push_back("failed " + why); },
                .synced =
                    [this](const wire::vm::Synced& synced) {
                      told_.push_back("synced " + std::to_string(synced.number));
                    }}};
  UniqueFd socket_;
};

TEST_F(GuestTest, HasOneConnection) {
  EXPECT_FALSE(guest_.Connect().has_value());
}

TEST_F(GuestTest, IsReadyOnceHoweverOftenItSaysSo) {
  const std::string ready = wire::vm::EncodeFromGuest(wire::vm::Ready{});
  Says(ready + ready);
  EXPECT_EQ(told_, std::vector<std::string>{"ready"});
}

TEST_F(GuestTest, EndsOnceAndIsLeftThen) {
  const std::string ended = wire::vm::EncodeFromGuest(wire::vm::Ended{7});
  Says(ended + ended);
  EXPECT_EQ(told_, std::vector<std::string>{"ended 7"});
  EXPECT_TRUE(Left());
}

TEST_F(GuestTest, IsLeftWhenItBreaksTheRules) {
  Says(std::string("\xff\xff\xff\x7f") + "x");  // a frame of 2 GiB
  EXPECT_TRUE(Left());
  EXPECT_TRUE(told_.empty());
  EXPECT_FALSE(guest_.Say(wire::vm::Sync{1}).has_value());
}

TEST_F(GuestTest, IsLeftWhenItDoesNotRead) {
  Status said;
  for (int i = 0; i < 1'000'000 && said; ++i) said = guest_.Say(wire::vm::Sync{1});
  EXPECT_FALSE(said.has_value());
}

}  // namespace
}  // namespace atl::guard
