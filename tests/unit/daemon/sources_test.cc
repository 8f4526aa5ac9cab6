// Sources of settings: file, environment, flags, and a reload of all of them.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "runtime/daemon/command_line.h"
#include "runtime/daemon/config_keys.h"
#include "runtime/daemon/config_text.h"
#include "runtime/daemon/reload.h"

namespace atl::daemon {
namespace {

class SourcesTest : public testing::Test {
 protected:
  SourcesTest() {
    std::string pattern = testing::TempDir() + "/atoll-config.XXXXXX";
    EXPECT_NE(::mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
    sources_.path = directory_ + "/atoll.toml";
    sources_.must_exist = true;
  }
  ~SourcesTest() override {
    ::unlink(sources_.path.c_str());
    ::rmdir(directory_.c_str());
  }

  void Write(const std::string& text, mode_t mode = 0600) {
    std::ofstream(sources_.path) << text;
    ASSERT_EQ(::chmod(sources_.path.c_str(), mode), 0);
  }
  void Flag(const std::string& name, const std::string& value) {
    for (size_t i = 0; i < Keys().size(); ++i) {
      if (FullName(Keys()[i]) == name) sources_.flags.push_back({i, {value}, "--" + name});
    }
  }
  Config Loaded() {
    const auto loaded = LoadConfig(sources_);
    EXPECT_TRUE(loaded) << loaded.error().message();
    return loaded ? loaded->config : Config();
  }
  std::string Refusal() {
    const auto loaded = LoadConfig(sources_);
    EXPECT_FALSE(loaded);
    return loaded ? "" : loaded.error().message();
  }

  std::string directory_;
  Sources sources_;
};

TEST_F(SourcesTest, TheLastOneCounts) {
  Write("[server]\nport = 1\nlimit_concurrency = 1\ntimeout_keep_alive = 1\n");
  sources_.environment = {"ATOLL_SERVER_PORT=2", "ATOLL_SERVER_TIMEOUT_KEEP_ALIVE=2"};
  Flag("server.port", "3");
  const Config config = Loaded();
  EXPECT_EQ(config.port, 3);
  EXPECT_EQ(config.keep_alive, 2U);
  EXPECT_EQ(config.limit_concurrency, 1U);
  EXPECT_EQ(config.pool_size, 8U);
}

TEST_F(SourcesTest, AMissingFileIsFineOnlyIfNobodyNamedIt) {
  EXPECT_NE(Refusal().find("atoll.toml"), std::string::npos);
  sources_.must_exist = false;
  Loaded();
  sources_.environment = {"SANDBOX_CONFIG_PATH=/nonexistent/x.toml"};
  EXPECT_NE(Refusal().find("/nonexistent/x.toml"), std::string::npos);
}

TEST_F(SourcesTest, UpstreamsVariableNamesTheFileButTheFlagWins) {
  Write("[server]\nport = 77\n");
  const std::string path = sources_.path;
  sources_.environment = {"SANDBOX_CONFIG_PATH=" + path};
  sources_.path = "/nonexistent/atoll.toml";
  sources_.must_exist = false;
  EXPECT_EQ(Loaded().port, 77);
  sources_.must_exist = true;
  EXPECT_NE(Refusal().find("/nonexistent/atoll.toml"), std::string::npos);
  sources_.path = path;
}

TEST_F(SourcesTest, ListsOfTheEnvironmentAreSplitAtCommas) {
  Write("[network]\ndns = [\"9.9.9.9\"]\n");
  sources_.environment = {
      "ATOLL_NETWORK_DNS=1.1.1.1,8.8.8.8",
      "ATOLL_INGRESS_SECURE_ACCESS_KEYS=a:AAEC,b:AA==", "ATOLL_INGRESS_SECURE_ACCESS_ACTIVE_KEY=b"};
  const Config config = Loaded();
  EXPECT_EQ(config.dns, (std::vector<std::string>{"1.1.1.1", "8.8.8.8"}));
  EXPECT_EQ(config.signing_keys.size(), 2U);
  sources_.environment = {"ATOLL_NETWORK_DNS="};
  EXPECT_TRUE(Loaded().dns.empty());
}

TEST_F(SourcesTest, ErrorsNameTheVariableOrTheFlag) {
  Write("");
  sources_.environment = {"ATOLL_SERVER_PORT=many"};
  EXPECT_NE(Refusal().find("ATOLL_SERVER_PORT 'many'"), std::string::npos);
  sources_.environment.clear();
  Flag("server.port", "lots");
  EXPECT_NE(Refusal().find("--server.port 'lots'"), std::string::npos);
}

TEST_F(SourcesTest, AMisspeltVariableIsNamed) {
  Write("");
  sources_.environment = {"ATOLL_SERVER_PROT=1", "ATOLL_SERVER=http://x", "PATH=/bin"};
  const auto loaded = LoadConfig(sources_);
  ASSERT_TRUE(loaded);
  ASSERT_EQ(loaded->warnings.size(), 1U);
  EXPECT_NE(loaded->warnings[0].find("ATOLL_SERVER_PROT"), std::string::npos);
}

TEST_F(SourcesTest, UpstreamsKeyVariableWinsOverTheFile) {
  Write("[server]\napi_key = \"from-the-file\"\n");
  sources_.environment = {"OPENSANDBOX_SERVER_API_KEY=from-the-environment"};
  EXPECT_EQ(Loaded().api_key, "from-the-environment");
}

TEST_F(SourcesTest, AnEmptyKeyVariableNeedsTheInsecureSwitch) {
  Write("[server]\napi_key = \"from-the-file\"\n");
  sources_.environment = {"OPENSANDBOX_SERVER_API_KEY="};
  EXPECT_NE(Refusal().find("OPENSANDBOX_INSECURE_SERVER=YES"), std::string::npos);
  sources_.environment.push_back("OPENSANDBOX_INSECURE_SERVER=yes");
  Refusal();  // upstream refuses it, too
  sources_.environment.back() = "OPENSANDBOX_INSECURE_SERVER=YES";
  const Config config = Loaded();
  EXPECT_TRUE(config.insecure_no_api_key);
  EXPECT_TRUE(config.api_key.empty());
  Flag("server.host", "0.0.0.0");
  EXPECT_NE(Refusal().find("loopback"), std::string::npos);
}

TEST_F(SourcesTest, TheInsecureVariableTakesNoKeyAway) {
  Write("[server]\napi_key = \"from-the-file\"\n");
  sources_.environment = {"OPENSANDBOX_INSECURE_SERVER=YES"};
  const Config config = Loaded();
  EXPECT_EQ(config.api_key, "from-the-file");
  EXPECT_FALSE(config.insecure_no_api_key);
}

TEST_F(SourcesTest, AFileThatOthersCanWriteIsRefused) {
  for (const mode_t mode : {0620U, 0602U}) {
    Write("", mode);
    EXPECT_NE(Refusal().find("chmod go-w"), std::string::npos);
  }
}

TEST_F(SourcesTest, ASecretThatEverybodyCanReadIsNamed) {
  Write("[server]\napi_key = \"0123456789\"\n", 0644);
  auto loaded = LoadConfig(sources_);
  ASSERT_TRUE(loaded);
  ASSERT_EQ(loaded->warnings.size(), 1U);
  EXPECT_NE(loaded->warnings[0].find("chmod o-r"), std::string::npos);
  Write("[server]\nport = 1\n", 0644);
  EXPECT_TRUE(LoadConfig(sources_)->warnings.empty());
}

TEST_F(SourcesTest, TheExampleIsNotWrittenOverAFile) {
  Write("old");
  EXPECT_EQ(WriteExampleConfig(sources_.path, false).error().code(), Code::kAlreadyExists);
  ASSERT_TRUE(WriteExampleConfig(sources_.path, true));
  struct stat info {};
  ASSERT_EQ(::stat(sources_.path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0037, 0U);
  EXPECT_EQ(Loaded().port, 8080);
}

TEST_F(SourcesTest, AReloadTakesWhatItCanAndNamesTheRest) {
  Write("[server]\napi_key = \"first-key\"\n");
  const Config now = Loaded();
  Write(
      "[server]\napi_key = \"second-key\"\nport = 9999\n[log]\nlevel = \"debug\"\n"
      "[limits]\npids = 99\n[server.colour]\n");
  const auto reload = PlanReload(now, sources_);
  ASSERT_TRUE(reload) << reload.error().message();
  EXPECT_EQ(reload->changed,
            (std::vector<std::string>{"server.api_key", "limits.pids", "log.level"}));
  EXPECT_EQ(reload->deferred, std::vector<std::string>{"server.port"});
  EXPECT_EQ(reload->warnings.size(), 1U);
  EXPECT_EQ(reload->config.api_key, "second-key");
  EXPECT_EQ(reload->config.limits.pids, 99U);
  EXPECT_EQ(reload->config.log_level, LogLevel::kDebug);
  EXPECT_EQ(reload->config.port, now.port);
}

TEST_F(SourcesTest, AReloadKeepsFlagsAndVariablesInForce) {
  Write("[limits]\npids = 50\n");
  sources_.environment = {"ATOLL_LIMITS_CPU=2"};
  Flag("limits.pids", "60");
  const Config now = Loaded();
  Write("[limits]\npids = 70\ncpu = 3\n");
  const auto reload = PlanReload(now, sources_);
  ASSERT_TRUE(reload);
  EXPECT_TRUE(reload->changed.empty());
  EXPECT_EQ(reload->config.limits.pids, 60U);
  EXPECT_EQ(reload->config.limits.cpu_millis, 2000U);
}

TEST_F(SourcesTest, ABadFileReloadsNothing) {
  Write("[limits]\npids = 50\n");
  const Config now = Loaded();
  for (const char* text :
       {"[limits]\npids = 60\ncpu = \"x\"\n", "[limits", "[limits]\npids = 1\n"}) {
    Write(text);
    EXPECT_FALSE(PlanReload(now, sources_)) << text;
  }
}

TEST_F(SourcesTest, AConfiguredKeyReplacesTheOneThatWasMade) {
  Write("");
  const Config now = Loaded();
  Write("[server]\napi_key = \"0123456789\"\n");
  const auto reload = PlanReload(now, sources_);
  ASSERT_TRUE(reload);
  EXPECT_EQ(reload->changed, std::vector<std::string>{"server.api_key"});
  EXPECT_EQ(reload->config.api_key, "0123456789");
}

std::optional<CommandLine> Line(std::vector<std::string> words, int* exit_code = nullptr) {
  std::vector<char*> argv;
  words.insert(words.begin(), "atolld");
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  int ignored = 0;
  return ParseCommandLine(static_cast<int>(words.size()), argv.data(),
                          exit_code != nullptr ? exit_code : &ignored);
}

TEST(CommandLineTest, FlagsBecomeOverrides) {
  const auto line = Line({"--server-port", "1", "--server-port", "2", "--network-dns", "9.9.9.9",
                          "--network-dns", "1.1.1.1", "--insecure-no-api-key"});
  ASSERT_TRUE(line);
  EXPECT_EQ(line->action, CommandLine::Action::kServe);
  EXPECT_FALSE(line->sources.must_exist);
  ASSERT_EQ(line->sources.flags.size(), 3U);
  Config config;
  for (const Override& flag : line->sources.flags) {
    ASSERT_TRUE(Keys()[flag.key].set(flag.values, &config)) << flag.where;
  }
  EXPECT_EQ(config.port, 2);
  EXPECT_EQ(config.dns, (std::vector<std::string>{"9.9.9.9", "1.1.1.1"}));
  EXPECT_TRUE(config.insecure_no_api_key);
}

TEST(CommandLineTest, WhatToDo) {
  EXPECT_EQ(Line({"--check-config"})->action, CommandLine::Action::kCheckConfig);
  auto line = Line({"init-config", "/x/y.toml", "--force"});
  ASSERT_TRUE(line);
  EXPECT_EQ(line->action, CommandLine::Action::kInitConfig);
  EXPECT_EQ(line->example_path, "/x/y.toml");
  EXPECT_TRUE(line->force);
  line =
      Line({"spawner", "--cgroup", "/a.slice/b.service", "--config", "/x", "--runtime-user", "u"});
  ASSERT_TRUE(line);
  EXPECT_EQ(line->action, CommandLine::Action::kSpawner);
  EXPECT_EQ(line->spawner_cgroup, "/a.slice/b.service");
  EXPECT_EQ(line->sources.path, "/x");
  EXPECT_TRUE(line->sources.must_exist);
  EXPECT_EQ(line->sources.flags.size(), 1U);
  int exit_code = 0;
  EXPECT_FALSE(Line({"--no-such-flag"}, &exit_code));
  EXPECT_NE(exit_code, 0);
}

}  // namespace
}  // namespace atl::daemon
