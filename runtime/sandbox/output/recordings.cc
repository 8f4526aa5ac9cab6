#include "runtime/sandbox/output/recordings.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <utility>

#include "runtime/base/json_text.h"
#include "runtime/base/log.h"
#include "runtime/base/sandbox_id.h"
#include "runtime/base/sys.h"
#include "runtime/base/utf8.h"

namespace atl::sandbox {
namespace {

using nlohmann::json;

constexpr std::string_view kEnd = ".cast";
constexpr size_t kIdBytes = 4;
// A longer text becomes several events, so that a reader needs little memory.
constexpr size_t kMaxText = 8 << 10;
constexpr size_t kHeadBytes = 4 << 10;
// A file system takes at least one of these for a file.
constexpr uint64_t kBlock = 4 << 10;
constexpr mode_t kDirectoryMode = 0700, kFileMode = 0600;
// The size of a terminal until its client tells another.
constexpr int kUsualColumns = 80, kUsualRows = 24;

// Digits, '-' and 8 hexadecimal digits: never a path.
bool IsRecordingId(std::string_view id) {
  const size_t dash = id.find('-');
  return dash != std::string_view::npos && dash > 0 && dash <= 16 &&
         id.size() == dash + 1 + 2 * kIdBytes &&
         id.substr(0, dash).find_first_not_of("0123456789") == std::string_view::npos &&
         id.substr(dash + 1).find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

uint64_t OnDisk(uint64_t bytes) {
  return (bytes + kBlock - 1) / kBlock * kBlock;
}

// Escapes what JSON lets stand as it is and a terminal obeys: DEL, and the control characters of
// ISO 6429 as UTF-8.
std::string WithoutControls(std::string line) {
  constexpr std::string_view kSuspects = "\x7f\xc2";
  size_t at = line.find_first_of(kSuspects);
  if (at == std::string::npos) return line;
  constexpr char kDigits[] = "0123456789abcdef";
  std::string out = line.substr(0, at);
  for (; at < line.size(); ++at) {
    auto byte = static_cast<unsigned char>(line[at]);
    if (byte == 0xc2 && static_cast<unsigned char>(line[at + 1]) < 0xa0) {
      byte = static_cast<unsigned char>(line[++at]);
    } else if (byte != 0x7f) {
      out.push_back(line[at]);
      continue;
    }
    out.append("\\u00").append({kDigits[byte >> 4], kDigits[byte & 15]});
  }
  return out;
}

std::string Line(const json& value) {
  return WithoutControls(JsonText(value)) + "\n";
}

Result<UniqueFd> DirectoryOf(const std::string& directory, const std::string& sandbox) {
  if (!ValidSandboxId(sandbox)) return Fail(Code::kNotFound, "no such sandbox");
  ATOLL_ASSIGN(const UniqueFd top, sys::Open(directory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
  return sys::OpenAt(top.get(), sandbox, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
}

// Returns the name and the size of each recording in the directory, oldest first.
Result<std::vector<RecordingInfo>> List(int directory) {
  std::vector<RecordingInfo> found;
  ATOLL_TRY(sys::EachName(directory, [&](std::string_view name) {
    struct stat info {};
    if (!name.ends_with(kEnd)) return true;
    const std::string id(name.substr(0, name.size() - kEnd.size()));
    if (!IsRecordingId(id)) return true;
    if (::fstatat(directory, (id + std::string(kEnd)).c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0 &&
        S_ISREG(info.st_mode)) {
      found.push_back({id, static_cast<uint64_t>(info.st_size), {}});
    }
    return true;
  }));
  std::sort(found.begin(), found.end(), [](const RecordingInfo& a, const RecordingInfo& b) {
    return a.id.size() != b.id.size() ? a.id.size() < b.id.size() : a.id < b.id;
  });
  return found;
}

}  // namespace

Recording::Recording(std::string sandbox, std::string id, std::string path, UniqueFd file,
                     uint64_t most, int64_t began_us, std::shared_ptr<RecordingShares> shares)
    : sandbox_(std::move(sandbox)),
      id_(std::move(id)),
      path_(std::move(path)),
      file_(std::move(file)),
      most_(most),
      began_us_(began_us),
      shares_(std::move(shares)) {
  RecordingShare& share = (*shares_)[sandbox_];
  share.open.insert(this);
  ++share.files;
}

Recording::~Recording() {
  // The sandbox may have been removed meanwhile.
  const auto found = shares_->find(sandbox_);
  if (found == shares_->end() || found->second.open.erase(this) == 0) return;
  if (discarded_) {
    --found->second.files;
  } else {
    found->second.bytes += OnDisk(size_);
  }
}

Status Recording::Append(const std::string& line) {
  if (size_ + line.size() > most_) {
    return Fail(Code::kResourceExhausted, "the recording has its full size");
  }
  ssize_t n;
  do {
    n = ::write(file_.get(), line.data(), line.size());
  } while (n < 0 && errno == EINTR);
  if (n != static_cast<ssize_t>(line.size())) {
    const Error why = n < 0 ? SysError("write") : SysError("write", ENOSPC);
    // A part of an event would only end the recording earlier for its readers.
    [[maybe_unused]] const int cut = ::ftruncate(file_.get(), static_cast<off_t>(size_));
    return Fail(why);
  }
  size_ += line.size();
  return {};
}

Status Recording::Event(char kind, const std::string& text, int64_t now_us) {
  const double seconds = static_cast<double>(std::max<int64_t>(0, now_us - began_us_)) / 1e6;
  return Append(Line(json::array({seconds, std::string(1, kind), text})));
}

Status Recording::Text(char kind, std::string_view bytes, int64_t now_us) {
  std::string& begun = begun_[kind == 'i' ? 1 : 0];
  begun.append(bytes);
  std::string whole = std::move(begun);
  begun = whole.substr(whole.size() - UnfinishedUtf8(whole));
  whole.resize(whole.size() - begun.size());
  std::string_view rest = whole;
  while (!rest.empty()) {
    std::string_view part = rest.substr(0, kMaxText);
    // Characters stay whole.
    if (part.size() < rest.size()) part.remove_suffix(UnfinishedUtf8(part));
    ATOLL_TRY(Event(kind, std::string(part), now_us));
    rest.remove_prefix(part.size());
  }
  return {};
}

Status Recording::Resize(int columns, int rows, int64_t now_us) {
  return Event('r', std::to_string(columns) + "x" + std::to_string(rows), now_us);
}

void Recording::Discard() {
  discarded_ = ::unlink(path_.c_str()) == 0;
}

Recordings::Recordings(Loop& loop, std::string directory)
    : loop_(loop), directory_(std::move(directory)) {}

void Recordings::Recover(const std::function<Holder(const std::string& sandbox)>& holder_of) {
  if (directory_.empty()) return;
  const auto top = sys::Open(directory_, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  const auto names = top ? sys::ListDir(top->get()) : Fail(top.error());
  if (!names) {
    if (names.error().code() == Code::kNotFound) return;  // nothing was ever recorded
    LogLine(LogLevel::kError, "recorded terminals cannot be found").Add(names.error());
    return;
  }
  for (const std::string& name : *names) {
    RecordingShare& share = (*shares_)[name];
    const Holder holder = holder_of(name);
    if (holder == Holder::kNobody) {
      Remove(name);
    } else if (holder == Holder::kSandbox) {
      const auto opened = DirectoryOf(directory_, name);
      const auto found = opened ? List(opened->get()) : Fail(opened.error());
      if (!found) continue;
      share.files = found->size();
      for (const RecordingInfo& one : *found) share.bytes += OnDisk(one.bytes);
    }
  }
}

Result<std::shared_ptr<Recording>> Recordings::Begin(const Terminal& terminal, uint64_t room,
                                                     int64_t unix_ms, int64_t now_us) {
  // A quarter of the room, so that many terminals at once leave each other some.
  const uint64_t most = std::min(kMaxBytes, room / 4);
  if (directory_.empty() || most < kMinBytes) {
    return Fail(Code::kResourceExhausted,
                "there is no room for recordings: delete a sandbox that has some, or raise "
                "history.max_bytes");
  }
  const auto share = shares_->find(terminal.sandbox);
  if (share != shares_->end() && share->second.files >= kMostOfSandbox) {
    return Fail(Code::kResourceExhausted, "the sandbox has " + std::to_string(kMostOfSandbox) +
                                              " recordings: use another sandbox");
  }
  ATOLL_TRY(sys::EnsureDirAt(AT_FDCWD, directory_, kDirectoryMode));
  ATOLL_ASSIGN(const UniqueFd top, sys::Open(directory_, O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
  ATOLL_TRY(sys::EnsureDirAt(top.get(), terminal.sandbox, kDirectoryMode));
  ATOLL_ASSIGN(const UniqueFd directory, DirectoryOf(directory_, terminal.sandbox));
  std::string id = std::to_string(unix_ms) + "-" + HexEncode(sys::RandomBytes(kIdBytes));
  std::string path = directory_ + "/" + terminal.sandbox + "/" + id + std::string(kEnd);
  ATOLL_ASSIGN(UniqueFd file,
               sys::OpenAt(directory.get(), id + std::string(kEnd),
                           O_WRONLY | O_APPEND | O_CREAT | O_EXCL | O_NOFOLLOW, kFileMode));
  const json head = {{"version", 2},
                     {"width", kUsualColumns},
                     {"height", kUsualRows},
                     {"timestamp", unix_ms / 1000},
                     {"title", "terminal of sandbox " + terminal.sandbox},
                     {"sandbox", terminal.sandbox},
                     {"actor", terminal.actor},
                     {"terminal", terminal.terminal},
                     {"input", terminal.input}};
  auto recording = std::make_shared<Recording>(terminal.sandbox, std::move(id), std::move(path),
                                               std::move(file), most, now_us, shares_);
  if (const Status begun = recording->Append(Line(head)); !begun) {
    recording->Discard();
    return Fail(begun.error());
  }
  return recording;
}

uint64_t Recordings::SizeOf(const std::string& sandbox) const {
  const auto found = shares_->find(sandbox);
  if (found == shares_->end()) return 0;
  uint64_t bytes = found->second.bytes;
  for (const Recording* const one : found->second.open) bytes += OnDisk(one->size());
  return bytes;
}

uint64_t Recordings::MostOf(const std::string& sandbox) const {
  const auto found = shares_->find(sandbox);
  if (found == shares_->end()) return 0;
  uint64_t bytes = found->second.bytes;
  for (const Recording* const one : found->second.open) bytes += OnDisk(one->most());
  return bytes;
}

void Recordings::Remove(const std::string& sandbox) {
  if (shares_->erase(sandbox) == 0) return;
  const auto removed = std::make_shared<Status>();
  loop_.RunBlocking(
      [directory = directory_, sandbox, removed] {
        const auto top = sys::Open(directory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
        *removed = top ? sys::RemoveTree(top->get(), sandbox) : Status(Fail(top.error()));
      },
      [removed, sandbox] {
        if (*removed) return;
        LogLine(LogLevel::kWarning, "cannot remove the recordings of a sandbox")
            .Add("sandbox", sandbox)
            .Add(removed->error());
      });
}

Result<std::vector<RecordingInfo>> ListRecordings(const std::string& directory,
                                                  const std::string& sandbox) {
  const auto opened = directory.empty() ? Fail(Code::kNotFound, "nothing is recorded")
                                        : DirectoryOf(directory, sandbox);
  if (!opened && opened.error().code() == Code::kNotFound) return std::vector<RecordingInfo>();
  if (!opened) return Fail(opened.error());
  ATOLL_ASSIGN(auto found, List(opened->get()));
  for (RecordingInfo& one : found) {
    ATOLL_ASSIGN(const UniqueFd file, sys::OpenAt(opened->get(), one.id + std::string(kEnd),
                                                  O_RDONLY | O_NOFOLLOW | O_NONBLOCK));
    std::string head(kHeadBytes, '\0');
    const ssize_t n = ::pread(file.get(), head.data(), head.size(), 0);
    if (n < 0) return FailSys("read a recording");
    head.resize(static_cast<size_t>(n));
    head.resize(std::min(head.find('\n'), head.size()));
    one.head = std::move(head);
  }
  return found;
}

Result<UniqueFd> OpenRecording(const std::string& directory, const std::string& sandbox,
                               const std::string& id) {
  if (directory.empty() || !IsRecordingId(id)) return Fail(Code::kNotFound, "no such recording");
  ATOLL_ASSIGN(const UniqueFd opened, DirectoryOf(directory, sandbox));
  return sys::OpenAt(opened.get(), id + std::string(kEnd), O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
}

}  // namespace atl::sandbox
