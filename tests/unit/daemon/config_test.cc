#include "runtime/daemon/config.h"

#include <gtest/gtest.h>

#include <set>

namespace atl::daemon {
namespace {

TEST(Config, EmptyIsTheDefaults) {
  const auto loaded = ParseConfig("", "f");
  ASSERT_TRUE(loaded);
  EXPECT_EQ(loaded->config.host, "127.0.0.1");
  EXPECT_EQ(loaded->config.port, 8080);
  EXPECT_EQ(loaded->config.data_dir, "/var/lib/atoll");
  EXPECT_EQ(loaded->config.run_dir, "/run/atoll");
  EXPECT_EQ(loaded->config.user, "atoll");
  EXPECT_TRUE(loaded->warnings.empty());
  EXPECT_TRUE(CheckConfig(loaded->config));
}

TEST(Config, EveryKey) {
  const auto loaded = ParseConfig(R"(
[server]
host = "::1"
port = 9000
api_key = "0123456789"
insecure_no_api_key = false
[storage]
data_dir = "/srv/atoll/"
allowed_host_paths = ["/srv/data/", "/mnt"]
[runtime]
run_dir = "/run/a"
user = "nobody"
pool_size = 3
[network]
dns = ["9.9.9.9", "1.1.1.1:53"]
[log]
level = "debug"
)",
                                  "f");
  ASSERT_TRUE(loaded) << loaded.error().message();
  const Config& c = loaded->config;
  EXPECT_EQ(c.host, "::1");
  EXPECT_EQ(c.port, 9000);
  EXPECT_EQ(c.api_key, "0123456789");
  EXPECT_EQ(c.data_dir, "/srv/atoll");
  EXPECT_EQ(c.allowed_host_paths, (std::vector<std::string>{"/srv/data", "/mnt"}));
  EXPECT_EQ(c.run_dir, "/run/a");
  EXPECT_EQ(c.user, "nobody");
  EXPECT_EQ(c.pool_size, 3U);
  EXPECT_EQ(c.dns, (std::vector<std::string>{"9.9.9.9", "1.1.1.1:53"}));
  EXPECT_EQ(c.log_level, LogLevel::kDebug);
}

TEST(Config, WhatIsNotKnownIsNamedOnce) {
  const auto loaded =
      ParseConfig("top = 1\n[server]\nport = 1\ncolour = 2\n[docker]\nx = 1\n", "f");
  ASSERT_TRUE(loaded);
  ASSERT_EQ(loaded->warnings.size(), 3U);
  std::string all;
  for (const auto& warning : loaded->warnings) all += warning + "\n";
  EXPECT_NE(all.find("f line 4: server.colour"), std::string::npos) << all;
  EXPECT_NE(all.find("docker"), std::string::npos);
  EXPECT_NE(all.find("top"), std::string::npos);
}

TEST(Config, ErrorsNameFileLineKeyAndValue) {
  const std::pair<const char*, const char*> bad[] = {
      {"[server]\nport = 70000", "f line 2: server.port '70000'"},
      {"[server]\nport = \"80\"", "server.port must be a whole number"},
      {"[server]\nhost = \"example.com\"", "server.host 'example.com'"},
      {"[server]\nhost = 3", "server.host must be a string"},
      {"[server]\napi_key = \"short\"", "at least 8"},
      {"[server]\napi_key = \"with a space\"", "visible"},
      {"[server]\ninsecure_no_api_key = \"yes\"", "must be true or false"},
      {"[storage]\ndata_dir = \"relative\"", "absolute"},
      {"[storage]\ndata_dir = \"/a/../b\"", "absolute"},
      {"[runtime]\nuser = \"\"", "runtime.user"},
      {"[runtime]\npool_size = 1000000", "512"},
      {"[network]\ndns = [1]", "list of strings"},
      {"[log]\nlevel = \"loud\"", "loud"},
      {"[server\nport = 1", "f line 1"},
      {"a = 1\na = 2", "f line 2"},
  };
  for (const auto& [text, words] : bad) {
    const auto loaded = ParseConfig(text, "f");
    ASSERT_FALSE(loaded) << text;
    EXPECT_NE(loaded.error().message().find(words), std::string::npos)
        << loaded.error().message() << " lacks " << words;
  }
}

TEST(Config, AMissingFileIsFineOnlyIfNobodyNamedIt) {
  EXPECT_TRUE(LoadConfig("/nonexistent/atoll.toml", false));
  EXPECT_FALSE(LoadConfig("/nonexistent/atoll.toml", true));
}

TEST(Config, NoKeyOnlyOnLoopback) {
  Config config;
  config.insecure_no_api_key = true;
  for (const char* host : {"127.0.0.1", "127.1.2.3", "::1"}) {
    config.host = host;
    EXPECT_TRUE(CheckConfig(config)) << host;
  }
  for (const char* host : {"0.0.0.0", "::", "10.0.0.1", "::ffff:10.0.0.1"}) {
    config.host = host;
    EXPECT_FALSE(CheckConfig(config)) << host;
  }
  config.host = "127.0.0.1";
  config.api_key = "0123456789";
  EXPECT_FALSE(CheckConfig(config));
}

TEST(Config, ARunDirectoryThatSocketsDoNotFitInIsRefused) {
  Config config;
  config.run_dir = "/" + std::string(54, 'r');
  EXPECT_TRUE(CheckConfig(config));
  config.run_dir += "r";
  const auto checked = CheckConfig(config);
  ASSERT_FALSE(checked);
  EXPECT_NE(checked.error().message().find("at most 55"), std::string::npos)
      << checked.error().message();
}

TEST(Config, FlagsSayTheSame) {
  std::set<std::string> flags;
  for (const Key& key : Keys()) flags.insert(FlagOf(key));
  EXPECT_EQ(flags.size(), Keys().size());
  for (const char* flag : {"--server-host", "--server-port", "--server-api-key",
                           "--storage-data-dir", "--runtime-run-dir", "--network-dns"}) {
    EXPECT_TRUE(flags.contains(flag)) << flag;
  }
}

}  // namespace
}  // namespace atl::daemon
