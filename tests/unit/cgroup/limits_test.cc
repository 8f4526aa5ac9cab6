#include "cgroup/limits_text.h"

#include <gtest/gtest.h>

#include "runtime/base/project_quota.h"

namespace atl::cgroup {
namespace {

const std::vector<std::string> kAll = [] {
  std::vector<std::string> keys;
  for (const LimitField& field : kLimitFields) keys.emplace_back(field.key);
  return keys;
}();

Result<Limits> Parse(const std::map<std::string, std::string>& requested,
                     const std::vector<std::string>& available = kAll) {
  return ParseLimits(requested, DefaultLimits(), {available});
}

TEST(Limits, NothingAskedGivesTheDefaults) {
  const auto limits = Parse({});
  ASSERT_TRUE(limits);
  EXPECT_EQ(*limits, DefaultLimits());
  EXPECT_EQ(*ParseLimits({}, DistinctLimits(7), {kAll}), DistinctLimits(7));
  EXPECT_EQ(limits->cpu_millis, 1000U);
  EXPECT_EQ(limits->memory_bytes, 512ULL << 20);
  EXPECT_EQ(limits->pids, 512U);
  EXPECT_EQ(limits->disk_bytes, 10ULL << 30);
}

TEST(Limits, EachIsTakenWithinItsBoundsAndWrittenBack) {
  for (const LimitField& field : kLimitFields) {
    const auto ask = [&](uint64_t value) {
      const bool item = std::string(field.key) != field.name;
      return Parse(
          {{field.key, (item ? std::string(field.name) + "=" : "") + LimitText(field, value)}});
    };
    for (const uint64_t value : {field.smallest, field.smallest + 1, field.largest}) {
      const auto limits = ask(value);
      ASSERT_TRUE(limits) << limits.error().message();
      Limits expected = DefaultLimits();
      expected.*field.value = value;
      EXPECT_EQ(*limits, expected) << field.name;
    }
    EXPECT_FALSE(ask(field.largest + 1)) << field.name;
    EXPECT_TRUE(field.smallest == 0 || !ask(field.smallest - 1)) << field.name;
  }
}

TEST(Limits, CpuVectors) {
  const std::pair<const char*, uint32_t> good[] = {
      {"1", 1000},  {"0.5", 500},   {"500m", 500},     {"2.25", 2250}, {".5", 500},
      {"1.", 1000}, {"0.0109", 10}, {"1024", 1024000}, {"10m", 10},
  };
  for (const auto& [text, millis] : good) {
    const auto limits = Parse({{"cpu", text}});
    ASSERT_TRUE(limits) << text;
    EXPECT_EQ(limits->cpu_millis, millis) << text;
  }
  for (const char* text : {"",
                           "m",
                           ".",
                           "0",
                           "0.001",
                           "9m",
                           "-1",
                           "+1",
                           "1e3",
                           "0x1",
                           "nan",
                           "inf",
                           "1 ",
                           " 1",
                           "1,5",
                           "1.5m",
                           "1025",
                           "1024.001",
                           "18446744073709551616",
                           "18446744073709551615",
                           "18446744073709551615m",
                           "1.0000000001",
                           "1..5"}) {
    const auto limits = Parse({{"cpu", text}});
    ASSERT_FALSE(limits) << text;
    EXPECT_EQ(limits.error().code(), Code::kInvalidArgument);
    EXPECT_NE(limits.error().message().find("resourceLimits.cpu"), std::string::npos);
    EXPECT_NE(limits.error().message().find(text), std::string::npos);
  }
}

TEST(Limits, MemoryVectors) {
  const std::pair<const char*, uint64_t> good[] = {
      {"6291456", 6291456},    {"6Mi", 6ULL << 20},      {"512Mi", 512ULL << 20},
      {"512mi", 512ULL << 20}, {"512MiB", 512ULL << 20}, {"512m", 512000000},
      {"512M", 512000000},     {"512MB", 512000000},     {"1g", 1000000000},
      {"2Gi", 2ULL << 30},     {"8000k", 8000000},       {"8192Ki", 8ULL << 20},
      {"1t", 1000000000000},   {"64Ti", 64ULL << 40},    {"7000000b", 7000000},
  };
  for (const auto& [text, bytes] : good) {
    const auto limits = Parse({{"memory", text}});
    ASSERT_TRUE(limits) << text;
    EXPECT_EQ(limits->memory_bytes, bytes) << text;
  }
  for (const char* text :
       {"", "Mi", "0", "5Mi", "-1", "1.5Gi", "512 Mi", "512Mi ", "512X", "512Pi", "65Ti",
        "18446744073709551615", "18446744073709551616", "99999999999Ti", "16777224Ti"}) {
    const auto limits = Parse({{"memory", text}});
    ASSERT_FALSE(limits) << text;
    EXPECT_EQ(limits.error().code(), Code::kInvalidArgument);
  }
}

TEST(Limits, PidsSwapAndIo) {
  auto limits = Parse({{"pids", "64"}, {"swap", "1Gi"}, {"io", "rbps=10Mi,wiops=100"}});
  ASSERT_TRUE(limits);
  EXPECT_EQ(limits->pids, 64U);
  EXPECT_EQ(limits->swap_bytes, 1ULL << 30);
  EXPECT_EQ(limits->io_read_bps, 10ULL << 20);
  EXPECT_EQ(limits->io_write_bps, 0U);
  EXPECT_EQ(limits->io_write_iops, 100U);
  for (const char* text : {"", "0", "7", "64k", "4194305", "-8"}) {
    EXPECT_FALSE(Parse({{"pids", text}})) << text;
  }
  for (const char* text : {"", "10Mi", "rbps=", "rbps=1", "rbps=10Mi,", ",rbps=10Mi", "riops=0",
                           "riops=4294967296", "rbps=1Mi,rbps=2Mi", "bps=1Mi", "riops=1k"}) {
    EXPECT_FALSE(Parse({{"io", text}})) << text;
  }
}

TEST(Limits, Disk) {
  const std::pair<const char*, uint64_t> good[] = {
      {"1Mi", 1ULL << 20}, {"1048576", 1ULL << 20}, {"20Gi", 20ULL << 30}, {"64Ti", 64ULL << 40}};
  for (const auto& [text, bytes] : good) {
    const auto limits = Parse({{"disk", text}});
    ASSERT_TRUE(limits) << text;
    EXPECT_EQ(limits->disk_bytes, bytes) << text;
  }
  // 0 does not mean "no limit".
  for (const char* text : {"", "0", "1", "1048575", "-1", "1.5Gi", "65Ti", "unlimited"}) {
    const auto limits = Parse({{"disk", text}});
    ASSERT_FALSE(limits) << text;
    EXPECT_EQ(limits.error().code(), Code::kInvalidArgument) << text;
  }
}

TEST(Limits, ADiskLimitThatCannotBeKeptIsRefused) {
  const std::vector<std::string> without = {"memory", "pids", "cpu"};
  const auto asked = Parse({{"disk", "10Gi"}}, without);
  ASSERT_FALSE(asked);
  EXPECT_EQ(asked.error().code(), Code::kUnimplemented);
  EXPECT_NE(asked.error().message().find(quota::Remedy()), std::string::npos);
  const auto silent = Parse({}, without);
  ASSERT_TRUE(silent);
  EXPECT_EQ(silent->disk_bytes, 0U);
}

TEST(Limits, ADiskLimitThatCannotBeKeptPassesIfTheOperatorSaysSo) {
  const Enforceable host{{"memory", "pids", "cpu"}, true};
  for (const char* key : {"disk", "ephemeral-storage"}) {
    const auto asked = ParseLimits({{key, "10Gi"}, {"memory", "1Gi"}}, DefaultLimits(), host);
    ASSERT_TRUE(asked) << key;
    EXPECT_EQ(asked->disk_bytes, 0U);
    EXPECT_EQ(asked->memory_bytes, 1ULL << 30);
    // Words that are not a limit are refused.
    EXPECT_FALSE(ParseLimits({{key, "lots"}}, DefaultLimits(), host));
  }
  EXPECT_FALSE(ParseLimits({{"io", "rbps=1Mi"}}, DefaultLimits(), host));
}

TEST(Limits, EphemeralStorageIsDisk) {
  const auto limits = Parse({{"ephemeral-storage", "20Gi"}});
  ASSERT_TRUE(limits);
  EXPECT_EQ(limits->disk_bytes, 20ULL << 30);
  EXPECT_FALSE(Parse({{"ephemeral-storage", "20Gi"}, {"disk", "20Gi"}}));
  // The error uses the word of the request.
  EXPECT_NE(Parse({{"ephemeral-storage", "lots"}}).error().message().find("ephemeral-storage"),
            std::string::npos);
}

TEST(Limits, WhatIsNotOfferedIsRefused) {
  EXPECT_EQ(Parse({{"gpu", "1"}}).error().code(), Code::kUnimplemented);
  const auto unknown = Parse({{"ram", "1Gi"}});
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code(), Code::kInvalidArgument);
  EXPECT_NE(unknown.error().message().find("'ram'"), std::string::npos);
  EXPECT_NE(unknown.error().message().find("cpu, memory"), std::string::npos);
}

TEST(Limits, WhatTheHostCannotEnforceIsRefused) {
  const std::vector<std::string> without = {"pids", "cpu"};
  const auto limits = Parse({{"memory", "1Gi"}}, without);
  ASSERT_FALSE(limits);
  EXPECT_EQ(limits.error().code(), Code::kInvalidArgument);
  EXPECT_FALSE(Parse({{"swap", "1Mi"}}, without));
  EXPECT_TRUE(Parse({{"swap", "0"}}, without));
  const auto defaults = Parse({}, without);
  ASSERT_TRUE(defaults);
  EXPECT_EQ(defaults->memory_bytes, 0U);
  EXPECT_EQ(defaults->pids, 512U);
}

TEST(Limits, AnErrorDoesNotRepeatAMegabyte) {
  const auto limits = Parse({{"memory", std::string(1 << 20, '9')}});
  ASSERT_FALSE(limits);
  EXPECT_LT(limits.error().message().size(), 400U);
}

}  // namespace
}  // namespace atl::cgroup
