#include "execd/trust/stores.h"

#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <algorithm>
#include <utility>

#include "execd/trust/trust.h"

namespace atl::execd {
namespace {

// Time limit of one run. A Java virtual machine needs half a second on a whole CPU, and sandboxes
// have less.
constexpr int64_t kTimeoutUs = 30'000'000;
constexpr const char* kJavaAlias = "opensandbox-mitmproxy";
constexpr const char* kNssName = "opensandbox-mitmproxy";
const Identity kRoot;

bool OnlyRootWrites(const std::string& path) {
  struct stat info;
  return ::stat(path.c_str(), &info) == 0 && info.st_uid == 0 && (info.st_mode & 022) == 0;
}

// Returns the user that runs the program. System stores need root. But a program that another user
// could have put into PATH runs as the image's user, because that user may have done so in the
// sandbox of the snapshot.
const Identity& RunnerOf(const std::string& program, const Identity& user) {
  const std::string directory = program.substr(0, program.rfind('/') + 1);
  return OnlyRootWrites(directory) && OnlyRootWrites(program) ? kRoot : user;
}

std::string Find(std::string_view name, const Environment& env) {
  std::string program = FindProgram(name, env);
  // Skips a program found by a relative entry of PATH.
  if (!program.starts_with('/')) program.clear();
  return program;
}

bool IsRegularFile(const std::string& path) {
  struct stat info;
  return ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode);
}

// "-cacerts" is the store that Java reads, at any path. Java 8 does not support the option.
std::vector<std::string> JavaStore(const std::string& keytool) {
  char real[PATH_MAX];
  std::string home = ::realpath(keytool.c_str(), real) != nullptr ? real : "";
  for (int i = 0; i < 2; ++i) home.resize(std::min(home.rfind('/'), home.size()));
  if (!home.ends_with("/jre")) home += "/jre";
  const std::string store = home + "/lib/security/cacerts";
  if (IsRegularFile(store)) return {"-keystore", store};
  return {"-cacerts"};
}

}  // namespace

void TrustStores::Fill(std::function<void()> done) {
  done_ = std::move(done);
  FillJava();
}

void TrustStores::FillJava() {
  program_ = Find("keytool", core_.env);
  if (program_.empty()) return FillNss();
  store_ = JavaStore(program_);
  const Identity& runner = RunnerOf(program_, core_.user);
  const auto call = [this](std::vector<std::string> words) {
    std::vector<std::string> argv = {program_};
    argv.insert(argv.end(), words.begin(), words.end());
    argv.insert(argv.end(), store_.begin(), store_.end());
    argv.insert(argv.end(), {"-storepass", "changeit", "-alias", kJavaAlias});
    return argv;
  };
  const auto import = call({"-importcert", "-noprompt", "-file", kAuthorityFile});
  const auto remove = call({"-delete"});
  const auto filled = [this](const Status& status) {
    Settle("Java's trust store", status);
    FillNss();
  };
  Run(import, runner, [=, this, &runner](const Status& status) {
    if (status || status.error().code() == Code::kDeadlineExceeded) return filled(status);
    // The import may have failed because a parent's certificate has this alias. Checking for it
    // first would cost every sandbox another start of Java.
    Run(remove, runner, [=, this, &runner](const Status&) { Run(import, runner, filled); });
  });
}

void TrustStores::FillNss() {
  program_ = Find("certutil", core_.env);
  const std::string home(core_.Home());
  if (program_.empty() || !home.starts_with('/') || !OpenDirectory(home, core_.user)) {
    return std::exchange(done_, {})();
  }
  const std::string directory = home + "/.pki/nssdb";
  store_ = {"-d", "sql:" + directory};
  if (const auto made = MakeDirectory(directory, core_.user); !made) {
    Settle("NSS database", Fail(made.error()));
    return std::exchange(done_, {})();
  }
  const bool present = IsRegularFile(directory + "/cert9.db");
  std::vector<std::string> first = {program_, present ? "-D" : "-N"};
  if (present) {
    first.insert(first.end(), {"-n", kNssName});
  } else {
    first.emplace_back("--empty-password");
  }
  first.insert(first.end(), store_.begin(), store_.end());
  Run(std::move(first), core_.user, [this](const Status& status) {
    if (status || status.error().code() != Code::kDeadlineExceeded) return AddToNss();
    Settle("NSS database", status);
    std::exchange(done_, {})();
  });
}

void TrustStores::AddToNss() {
  std::vector<std::string> argv = {program_, "-A",  "-n", kNssName,
                                   "-t",     "C,,", "-i", kAuthorityFile};
  argv.insert(argv.end(), store_.begin(), store_.end());
  Run(std::move(argv), core_.user, [this](const Status& status) {
    Settle("NSS database", status);
    std::exchange(done_, {})();
  });
}

void TrustStores::Run(std::vector<std::string> argv, const Identity& identity,
                      const CheckedRun::Done& then) {
  if (const Status started = Start(std::move(argv), identity, then); !started) then(started);
}

Status TrustStores::Start(std::vector<std::string> argv, const Identity& identity,
                          CheckedRun::Done then) {
  ATOLL_ASSIGN(const UniqueFd directory, OpenDirectory("/", kRoot));
  SpawnSpec spec;
  spec.argv = std::move(argv);
  spec.programs = {spec.argv[0]};
  spec.env = core_.env.entries();
  spec.identity = &identity;
  spec.cwd = directory.get();
  ATOLL_TRY(run_.Start(std::move(spec), kTimeoutUs, std::move(then)));
  // Kills leftovers: nothing else may run before the sandbox's own programs.
  run_.EndWhole();
  return {};
}

void TrustStores::Settle(std::string_view what, const Status& status) {
  if (!status) complain_(std::string(what) + ": " + program_ + ": " + status.error().message());
}

}  // namespace atl::execd
