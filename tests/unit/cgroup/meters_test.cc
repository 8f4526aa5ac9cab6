#include "cgroup/meters.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "cgroup/keyed_number.h"
#include "cgroup/tree.h"

namespace atl::cgroup {
namespace {

TEST(KeyedNumber, OnlyANumberIsANumber) {
  EXPECT_EQ(LeadingNumber("0\n"), 0U);
  EXPECT_EQ(LeadingNumber("18446744073709551615"), UINT64_MAX);
  for (const char* text : {"", "\n", "max\n", "-1", "12x", "18446744073709551616"}) {
    EXPECT_FALSE(LeadingNumber(text)) << text;
  }
  constexpr char kStat[] = "anon 0\nfile 42\nfile_mapped max\nshmem\n";
  EXPECT_EQ(KeyedNumber(kStat, "anon"), 0U);
  EXPECT_EQ(KeyedNumber(kStat, "file"), 42U);
  for (const char* key : {"file_mapped", "shmem", "slab"}) {
    EXPECT_FALSE(KeyedNumber(kStat, key)) << key;
  }
}

// The files of one group on a host with that layout.
class Files : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    std::string name = std::filesystem::temp_directory_path() / "atoll-meters-XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    base_ = name;
    host_.v2 = GetParam();
    host_.unified = base_ + "/v2";
    if (!host_.v2) {
      for (const char* controller : {"memory", "pids", "blkio"}) {
        host_.v1[controller] = base_ + "/" + controller;
      }
    }
    Write("cpu.stat", "usage_usec 5000\nuser_usec 0\n", "v2");
    if (host_.v2) {
      Write("memory.stat", "anon 4096\nfile 1\nkernel 100\nshmem 0\n", "v2");
      Write("memory.events", "oom 0\noom_kill 2\n", "v2");
      Write("pids.events", "max 0\n", "v2");
      Write("run/pids.events", "max 3\n", "v2");
      return;
    }
    Write("memory.stat", "total_rss 4096\ntotal_shmem 0\n", "memory");
    Write("memory.kmem.usage_in_bytes", "100\n", "memory");
    Write("memory.oom_control", "under_oom 0\noom_kill 2\n", "memory");
    Write("run/memory.oom_control", "under_oom 0\noom_kill 0\n", "memory");
    Write("pids.events", "max 0\n", "pids");
    Write("run/pids.events", "max 3\n", "pids");
  }
  void TearDown() override { std::filesystem::remove_all(base_); }

  std::filesystem::path Group(const std::string& hierarchy) const {
    return std::filesystem::path(base_) / hierarchy / "atoll" / "s1";
  }
  void Write(const std::string& name, const std::string& text, const std::string& hierarchy) {
    const auto path = Group(hierarchy) / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  std::string memory() const { return host_.v2 ? "v2" : "memory"; }
  std::string pids() const { return host_.v2 ? "v2" : "pids"; }
  Result<Meters> Read() const { return ReadMeters(host_, host_.unified + "/atoll", "s1"); }
  // Returns nothing if the files can be read.
  std::optional<Code> Failure() const {
    const auto meters = Read();
    return meters ? std::nullopt : std::optional(meters.error().code());
  }

  std::string base_;
  Host host_;
};

TEST_P(Files, AreRead) {
  const auto meters = Read();
  ASSERT_TRUE(meters) << meters.error().message();
  EXPECT_EQ(meters->cpu_micros, 5000U);
  EXPECT_EQ(meters->memory_bytes, 4196U);
  EXPECT_EQ(meters->events.oom_kills, 2U);
  EXPECT_EQ(meters->events.pids_hits, 3U);
  EXPECT_EQ(meters->peak_memory_bytes, 0U) << "this kernel does not count it";
  EXPECT_EQ(meters->read_bytes, 0U);
}

TEST_P(Files, ThatCannotBeUnderstoodAreNoZeroUsage) {
  const std::string io = host_.v2 ? "io.stat" : "blkio.throttle.io_service_bytes_recursive";
  const std::string peak = host_.v2 ? "memory.peak" : "memory.max_usage_in_bytes";
  const struct {
    std::string name, hierarchy;
  } files[] = {
      {"cpu.stat", "v2"},
      {"memory.stat", memory()},
      {"run/pids.events", pids()},
      {"pids.events", pids()},
      {peak, memory()},
      {io, host_.v2 ? "v2" : "blkio"},
      {host_.v2 ? "memory.events" : "run/memory.oom_control", memory()},
  };
  for (const auto& file : files) {
    const bool there = std::filesystem::exists(Group(file.hierarchy) / file.name);
    const auto saved = Group(file.hierarchy) / "saved";
    if (there) std::filesystem::copy(Group(file.hierarchy) / file.name, saved);
    const std::string traffic = host_.v2 ? "8:0 rbytes=x wbytes=1\n" : "8:0 Read x\n8:0 Write 1\n";
    for (const std::string& text :
         file.name == io ? std::vector{traffic} : std::vector<std::string>{"", "garbage\n"}) {
      Write(file.name, text, file.hierarchy);
      EXPECT_EQ(Failure(), Code::kInternal) << file.name << " holds '" << text << "'";
    }
    std::filesystem::remove(Group(file.hierarchy) / file.name);
    if (there) std::filesystem::rename(saved, Group(file.hierarchy) / file.name);
  }
  EXPECT_TRUE(Read());
}

TEST_P(Files, OfAGroupThatIsGoneAreNotFound) {
  std::filesystem::remove_all(Group(memory()));
  EXPECT_EQ(Failure(), Code::kNotFound);
  EXPECT_EQ(ReadMemoryInUse(host_, host_.unified + "/atoll", "s1").error().code(), Code::kNotFound);
  std::filesystem::remove_all(Group("v2"));
  EXPECT_EQ(CpuMicrosOf(Group("v2")).error().code(), Code::kNotFound);
}

TEST_P(Files, TellWhetherAGroupHasProcesses) {
  Write("cgroup.events", "populated 0\nfrozen 0\n", "v2");
  EXPECT_FALSE(*HasProcesses(Group("v2")));
  Write("cgroup.events", "frozen 0\n", "v2");
  EXPECT_FALSE(HasProcesses(Group("v2"))) << "unknown is not empty";
}

INSTANTIATE_TEST_SUITE_P(Layouts, Files, testing::Bool(),
                         [](const auto& layout) { return layout.param ? "v2" : "hybrid"; });

}  // namespace
}  // namespace atl::cgroup
