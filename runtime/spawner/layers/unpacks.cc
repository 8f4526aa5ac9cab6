#include "runtime/spawner/layers/unpacks.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>

#include "runtime/base/sys.h"
#include "runtime/spawner/layers/unpacker.h"

namespace atl::spawner {
namespace {

// Two imports, two readers of images, eight differences.
constexpr size_t kMaxUnpacks = 12;

Status CheckDescriptors(bool pack, int input, int output) {
  struct stat info {};
  if (::fstat(input, &info) != 0) return FailSys("fstat unpack's input");
  const int access = ::fcntl(input, F_GETFL) & O_ACCMODE;
  const bool null = S_ISCHR(info.st_mode) && info.st_rdev == makedev(1, 3);
  if (pack ? !(S_ISREG(info.st_mode) || null) || access == O_RDONLY
           : !S_ISREG(info.st_mode) || access != O_RDONLY) {
    return Fail(Code::kPermissionDenied,
                pack ? "pack: the file must be a regular one or /dev/null, open for writing"
                     : "unpack: input must be a regular file, open for reading");
  }
  if (::fstat(output, &info) != 0 || !S_ISDIR(info.st_mode)) {
    return Fail(Code::kPermissionDenied, "unpack: output must be a directory");
  }
  return {};
}

}  // namespace

void Unpacks::Start(const char* mode, UniqueFd input, UniqueFd output, Done done) {
  const Status checked =
      CheckDescriptors(mode == std::string_view("pack"), input.get(), output.get());
  if (!checked) return done(Fail(checked.error()));
  Run({mode}, input.get(), output.get(), {}, std::move(done));
}

void Unpacks::Diff(const std::vector<std::string>& arguments, const std::vector<UniqueFd>& layers,
                   UniqueFd out, Done done) {
  struct stat info {};
  if (::fstat(out.get(), &info) != 0 || !S_ISFIFO(info.st_mode)) {
    return done(Fail(Code::kPermissionDenied, "diff: the output must be a pipe"));
  }
  Run(arguments, out.get(), layers.front().get(), layers, std::move(done));
}

void Unpacks::Run(const std::vector<std::string>& arguments, int input, int output,
                  std::span<const UniqueFd> layers, Done done) {
  if (runs_.size() >= kMaxUnpacks) {
    return done(Fail(Code::kUnavailable, "unpack: too many at once"));
  }
  auto report = sys::MakePipe();
  if (!report) return done(Fail(std::move(report).error()));
  const auto pid = StartUnpacker(host_, arguments, input, output, report->write.get(), layers);
  if (!pid) return done(Fail(pid.error()));
  Child run;
  run.done = std::move(done);
  ::fcntl(report->read.get(), F_SETFL, O_NONBLOCK);
  run.report = std::move(report->read);
  const auto watch =
      loop_.Watch(run.report.get(), EPOLLIN, [this, child = *pid](uint32_t) { OnReadable(child); });
  ATOLL_CHECK(watch.has_value());
  run.watch = *watch;
  runs_[*pid] = std::move(run);
}

void Unpacks::OnReadable(pid_t pid) {
  const auto found = runs_.find(pid);
  if (found == runs_.end() || !found->second.report) return;
  Child& run = found->second;
  char chunk[4096];
  for (;;) {
    const ssize_t n = TEMP_FAILURE_RETRY(::read(run.report.get(), chunk, sizeof chunk));
    if (n < 0 && errno == EAGAIN) return;
    if (n <= 0) break;
    // Reads and drops what exceeds the limit, so that a chatty unpacker is not stuck for ever.
    const size_t room = kMaxReport - run.text.size();
    run.text.append(chunk, std::min(room, static_cast<size_t>(n)));
  }
  // End of file: only the exit status is still to come.
  loop_.Unwatch(run.watch);
  run.report.reset();
}

void Unpacks::Abandon() {
  for (const auto& [pid, run] : runs_) ::kill(pid, SIGKILL);
}

bool Unpacks::OnChildExit(pid_t pid, int wait_status) {
  const auto found = runs_.find(pid);
  if (found == runs_.end()) return false;
  OnReadable(pid);
  Child run = std::move(found->second);
  runs_.erase(found);
  if (run.report) loop_.Unwatch(run.watch);
  auto report = UnpackerResult(wait_status, std::move(run.text));
  if (!report) {
    run.done(Fail(std::move(report).error()));
  } else {
    run.done(wire::Unpacked{std::move(*report)});
  }
  return true;
}

}  // namespace atl::spawner
