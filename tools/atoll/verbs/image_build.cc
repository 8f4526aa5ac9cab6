// atoll image build: runs the Python recipes installed beside this program.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <climits>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "runtime/base/json_text.h"
#include "runtime/base/meminfo.h"
#include "runtime/base/sys.h"
#include "tools/atoll/archives/archives.h"
#include "tools/atoll/client/child.h"
#include "tools/atoll/client/interrupt.h"
#include "tools/atoll/client/json_text.h"
#include "tools/atoll/verbs/image_import.h"
#include "tools/atoll/verbs/image_verbs.h"
#include "tools/atoll/words/text.h"

namespace atl::cli {
namespace {

struct BuildOptions {
  std::string what, name, output;
  // Options of a build from a Dockerfile.
  std::string file, target, network;
  Words arguments;
  bool no_cache = false;
};

// Returns the directory of the recipes: the installed one, or that of the source tree around the
// build folder.
Result<std::string> FindRecipes() {
  char program[PATH_MAX] = {};
  const ssize_t size = readlink("/proc/self/exe", program, sizeof program - 1);
  if (size < 0) return FailSys("readlink /proc/self/exe");
  const std::string path(program, static_cast<size_t>(size));
  const std::string here = path.substr(0, path.rfind('/'));
  for (const char* place : {"/../share/atoll/recipes", "/../images/recipes"}) {
    if (access((here + place + "/build.py").c_str(), R_OK) == 0) return here + place;
  }
  return Fail(Code::kFailedPrecondition,
              "no recipes in " + here +
                  "/../share/atoll/recipes; they are installed with this program (meson install)");
}

// Returns the directory to build in, if possible in memory: a disk takes a third of a build's time,
// half of it for files that are removed again. The largest shipped image needs 9 GiB while it is
// built, 6 of them here. Enough memory must remain for all others.
std::string WhereToBuild() {
  constexpr char kMemory[] = "/dev/shm";
  const auto meminfo = sys::ReadFileAt(AT_FDCWD, "/proc/meminfo", 4096);
  struct statvfs room = {};
  const bool enough = meminfo && MeminfoBytes(*meminfo, "MemAvailable:") >= 16ULL << 30 &&
                      statvfs(kMemory, &room) == 0 &&
                      uint64_t{room.f_bavail} * room.f_frsize >= 7ULL << 30;
  return enough ? kMemory : "/var/tmp";
}

// Returns true for a build context such as "." or "./app". "desktop" is a recipe, even if a folder
// has that name.
bool IsContext(const BuildOptions& options) {
  struct stat info {};
  return !options.file.empty() || options.what == "." || options.what == ".." ||
         (options.what.find('/') != std::string::npos && stat(options.what.c_str(), &info) == 0 &&
          S_ISDIR(info.st_mode));
}

Status BuildFile(const Settings& settings, const BuildOptions& options) {
  if (!options.network.empty() && options.network != "none" && options.network != "default") {
    return Wrong("--network " + options.network +
                 ": there are default and none; no sandbox sees the host's network");
  }
  if (!options.output.empty() && options.name.empty())
    return Wrong("-o wants a name, too: -t NAME");
  ATOLL_ASSIGN(const std::string recipes, FindRecipes());
  ATOLL_ASSIGN(const int cancel_fd, CatchInterrupts());
  ATOLL_ASSIGN(const Server server, FindServer(settings));
  Child builder{.argv = {"python3", recipes + "/build_file.py", "--file",
                         options.file.empty() ? options.what + "/Dockerfile" : options.file},
                .env = {"PYTHONDONTWRITEBYTECODE=1", "ATOLL_SERVER=" + server.url},
                .apt = "python3"};
  if (!server.api_key.empty()) builder.env.push_back("ATOLL_API_KEY=" + server.api_key);
  if (!settings.cacert.empty()) builder.env.push_back("ATOLL_CACERT=" + settings.cacert);
  for (const auto& [word, value] :
       {std::pair("--name", options.name), std::pair("--target", options.target),
        std::pair("--network", options.network)}) {
    if (!value.empty()) builder.argv.push_back(word + ("=" + value));
  }
  for (const std::string& argument : options.arguments) {
    builder.argv.push_back("--build-arg=" + argument);
  }
  if (options.no_cache) builder.argv.push_back("--no-cache");
  builder.argv.insert(builder.argv.end(), {"--", options.what});
  ATOLL_ASSIGN(const std::string told, RunChild(builder, cancel_fd));
  const auto made = JsonOrNull(told);
  if (!made.is_object()) return Fail(Code::kInternal, "the builder printed no image name: " + told);
  const std::string name = TextOf(made, "name");
  if (settings.json) {
    std::puts(JsonText(made).c_str());
  } else if (name.empty()) {
    std::puts("built; -t NAME gives it a name, and sandboxes with it");
  } else {
    std::printf("built %s (%s, %s)\n", Printable(name).c_str(),
                Printable(TextOf(made, "digest")).c_str(),
                HumanSize(made.value("sizeBytes", uint64_t{0})).c_str());
  }
  if (options.output.empty()) return {};
  ATOLL_ASSIGN(Api api, Api::Connect(settings));
  return ExportArchive(api, {"/images/" + PercentEncode(name), name, "oci"}, {options.output, ""});
}

// Returns variables that make the recipes use the same server and key as this call.
Words ServerVariables(const Settings& settings) {
  Words env = {"PYTHONDONTWRITEBYTECODE=1", "ATOLL_RUN_DIR=" + settings.run_dir};
  for (const auto& [name, value] :
       {std::pair("ATOLL_SERVER", settings.server), std::pair("ATOLL_API_KEY", settings.api_key),
        std::pair("ATOLL_API_KEY_FILE", settings.api_key_file),
        std::pair("ATOLL_CACERT", settings.cacert)}) {
    if (!value.empty()) env.push_back(name + ("=" + value));
  }
  return env;
}

Status BuildImage(const Settings& settings, const BuildOptions& options) {
  if (IsContext(options)) return BuildFile(settings, options);
  if (!options.target.empty() || !options.network.empty() || !options.arguments.empty() ||
      options.no_cache) {
    return Wrong("--target, --network, --build-arg and --no-cache are for a Dockerfile: -f FILE");
  }
  if (options.output.empty()) {
    // Checks the server first, because a build takes minutes.
    ATOLL_ASSIGN(Api api, Api::Connect(settings));
    ATOLL_TRY(Fetch(api, "/images"));
  }
  ATOLL_ASSIGN(const std::string recipes, FindRecipes());
  ATOLL_ASSIGN(const int cancel_fd, CatchInterrupts());
  ATOLL_ASSIGN(const TemporaryDirectory work, TemporaryDirectory::Make(WhereToBuild()));
  const std::string archive = options.output.empty() ? work.path() + "/image.tar" : options.output;
  Child builder{.argv = {"python3", recipes + "/build.py", options.what, archive},
                .env = ServerVariables(settings),
                .apt = "python3"};
  if (!options.name.empty()) builder.argv.insert(builder.argv.end(), {"--name", options.name});
  // An archive that is imported at once need not be compressed.
  if (options.output.empty()) builder.argv.push_back("--no-gzip");
  ATOLL_ASSIGN(const std::string told, RunChild(builder, cancel_fd));
  if (!options.output.empty()) return {};
  const auto made = JsonOrNull(told);
  if (!made.is_object()) return Fail(Code::kInternal, "the builder printed no image name: " + told);
  ATOLL_ASSIGN(const auto image, ImportImage(settings, {archive, ""}, made.value("name", "")));
  ATOLL_ASSIGN(Api api, Api::Connect(settings));
  for (const std::string alias : made.value("aliases", nlohmann::json::array())) {
    ATOLL_TRY(GiveName(api, image.value("name", ""), alias));
    if (!settings.json) std::printf("as %s, too\n", Printable(alias).c_str());
  }
  return {};
}

}  // namespace

void AddBuildVerb(Verb& group, const Settings& settings) {
  const auto options = std::make_shared<BuildOptions>();
  group.Add("build", "Make an image by a recipe or a Dockerfile, in sandboxes")
      .Takes(Argument{"WHAT",
                      "A recipe's name, FILE.toml of your own, or the folder of a Dockerfile's "
                      "files",
                      &options->what})
      .Takes(Option{"-t,--tag,--name", "NAME[:TAG]", "Name to give it; else the recipe's own",
                    &options->name})
      .Takes(Option{"-o,--output", "FILE", "Write an OCI archive, too; of a recipe, instead",
                    &options->output})
      .Takes(
          Option{"-f,--file", "FILE", "The Dockerfile; else the one in the folder", &options->file})
      .Takes(Option{"--build-arg", "NAME=VALUE", "Value of an ARG; NAME alone passes ours on",
                    &options->arguments})
      .Takes(Option{"--target", "STAGE", "The stage to make; else the last", &options->target})
      .Takes(Option{"--network", "NAME", "none: no RUN reaches anything", &options->network})
      .Takes(Option{"--no-cache", "", "Keep to no step of an earlier build", &options->no_cache})
      .Says(
          "A FILE.toml says from (a recipe), packages, pip, npm, files, run, env, entrypoint, "
          "cmd,\n"
          "workdir and user. With SOURCE_DATE_EPOCH in the environment the same recipe gives the\n"
          "same image. Mirrors and certificates for all builds are in /etc/atoll/build.toml.\n\n"
          "Examples:\n"
          "  atoll image build python\n"
          "  atoll image build my.toml --name my:1\n"
          "  atoll image build -f Dockerfile -t app:1 .\n"
          "  atoll image build code-interpreter -o code-interpreter.tar")
      .Does([options, &settings] { return BuildImage(settings, *options); });
}

}  // namespace atl::cli
