// atoll shutdown|backup|version|doctor
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <memory>

#include "runtime/base/cleanup.h"
#include "runtime/base/sys.h"
#include "tools/atoll/client/api.h"
#include "tools/atoll/verbs/verbs.h"
#include "tools/atoll/words/text.h"
#include "tools/doctor/doctor.h"

namespace atl::cli {
namespace {

Status Shutdown(const Settings& settings, bool all) {
  ATOLL_ASSIGN(Api api, Api::Connect(settings));
  ATOLL_TRY(api.Send("POST", all ? "/shutdown?all=true" : "/shutdown"));
  if (!settings.json) {
    std::puts(all ? "all sandboxes are gone, the daemon is stopping"
                  : "the daemon is stopping; its sandboxes keep running");
  }
  return {};
}

// Creates a file that only its owner can read, because it contains keys. An existing file is not
// overwritten.
Status WriteBackup(const Settings& settings, const std::string& file) {
  ATOLL_ASSIGN(Api api, Api::Connect(settings));
  ATOLL_ASSIGN(const UniqueFd to, sys::Open(file, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600));
  Cleanup remove([&file] { ::unlink(file.c_str()); });
  Status written;
  http::Client::Call call;
  call.method = "GET";
  call.target = "/backup";
  ATOLL_TRY(api.Stream(std::move(call), [&](std::string_view part) {
    written = sys::WriteAll(to.get(), part);
    return written.has_value();
  }));
  ATOLL_TRY(std::move(written));
  if (::fsync(to.get()) != 0) return FailSys("fsync " + file);
  remove.Release();
  if (!settings.json) {
    std::printf("%s: the daemon's state, with its keys; now copy <data_dir>/store, too\n",
                Printable(file).c_str());
  }
  return {};
}

}  // namespace

void AddDaemonVerbs(Verb& root, const Settings& settings) {
  const auto all = std::make_shared<bool>(false);
  root.Add("shutdown", "Stop the daemon")
      .Takes(Option{"--all", "", "Delete all sandboxes first, and end the spawner, too", all.get()})
      .Says("Without --all the sandboxes keep running, and the next daemon takes them over.")
      .Does([all, &settings] { return Shutdown(settings, *all); });

  const auto file = std::make_shared<std::string>();
  root.Add("backup",
           "Save the daemon's state: images' names, volumes, snapshots, pools, usage, keys")
      .Takes(Argument{"FILE", "Where to; it must not be there yet", file.get()})
      .Says(
          "The store, with the layers and volumes themselves, is copied afterwards:\n"
          "  atoll backup state.json\n"
          "  rsync -aHAX --numeric-ids --exclude=/fs/uppers --exclude=/trash \\\n"
          "    /var/lib/atoll/store/ backup:store/\n\n"
          "To restore, put the store back, then 'atolld restore state.json' as root before the "
          "daemon\n"
          "starts. It refuses a store that is another one, or lacks what the state names.")
      .Does([file, &settings] { return WriteBackup(settings, *file); });

  root.Add("version", "Print the version").Does([&settings]() -> Status {
    std::printf(settings.json ? "{\"version\":\"%s\"}\n" : "atoll %s\n", ATOLL_VERSION);
    return {};
  });

  struct Host {
    doctor::HostOptions options;
    int port = doctor::HostOptions().port;
  };
  const auto host = std::make_shared<Host>();
  root.Add("doctor", "Check what this host offers, what is missing, and how to mend it")
      .Takes(Option{"--data-dir", "DIRECTORY", "Where the daemon keeps its data",
                    &host->options.data_dir})
      .Takes(
          Option{"--port", "PORT", "That the daemon is to listen on", &host->port, Range{1, 65535}})
      .Takes(Option{"--user", "USER", "That the daemon runs as", &host->options.user})
      .Says(
          "Run it as root: some checks really make namespaces and mounts, in a child process, and\n"
          "leave nothing behind. Exit code 0 if nothing is missing (warnings do not count), else "
          "1.\n"
          "With --server it looks at that server instead: does it answer, let us in, and is it "
          "well?\n\n"
          "Examples:\n"
          "  sudo atoll doctor\n"
          "  atoll doctor --server https://sandboxes.example --api-key-file ~/.atoll-key")
      .Does([host, &settings]() -> Result<int> {
        host->options.run_dir = settings.run_dir;
        host->options.port = static_cast<uint16_t>(host->port);
        return doctor::Run(host->options, settings);
      });
}

}  // namespace atl::cli
