#include "runtime/tenants/audit/kept_lines.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <list>
#include <map>
#include <utility>

#include "runtime/base/sys.h"
#include "runtime/base/unique_fd.h"
#include "runtime/tenants/audit/audit_line.h"
#include "runtime/tenants/audit/log_files.h"

namespace atl::audit {
namespace {

constexpr std::string_view kHost = "host", kOfTenant = "tenant-", kKeptSuffix = ".jsonl";
constexpr std::string_view kOld = ".old";
constexpr size_t kBuffer = 256 << 10;

std::string NameOf(std::string_view tenant) {
  std::string name;
  if (tenant.empty()) {
    name = kHost;
  } else {
    name.append(kOfTenant).append(tenant);
  }
  return name.append(kKeptSuffix);
}

// Returns the tenant whose lines a file of that name holds; unset: it holds no kept lines.
std::optional<std::string> OwnerOf(std::string_view name) {
  if (name.ends_with(kOld)) name.remove_suffix(kOld.size());
  if (!name.ends_with(kKeptSuffix)) return {};
  name.remove_suffix(kKeptSuffix.size());
  if (name == kHost) return std::string();
  if (!name.starts_with(kOfTenant) || name.size() == kOfTenant.size()) return {};
  return std::string(name.substr(kOfTenant.size()));
}

struct KeptFile {
  std::string name, tenant;
  uint64_t size = 0;
  int64_t unix_s = 0;
};

// Returns the files, an older one of a tenant before its newer one.
Result<std::vector<KeptFile>> ListKept(int directory) {
  std::vector<KeptFile> files;
  ATOLL_TRY(sys::EachName(directory, [&](const char* name) {
    auto owner = OwnerOf(name);
    struct stat info {};
    if (!owner || ::fstatat(directory, name, &info, AT_SYMLINK_NOFOLLOW) != 0) return true;
    if (!S_ISREG(info.st_mode)) return true;
    files.push_back({name, *std::move(owner), static_cast<uint64_t>(info.st_size),
                     static_cast<int64_t>(info.st_mtim.tv_sec)});
    return true;
  }));
  std::sort(files.begin(), files.end(), [](const KeptFile& a, const KeptFile& b) {
    // A longer name ends in .old.
    return a.tenant != b.tenant ? a.tenant < b.tenant : a.name.size() > b.name.size();
  });
  return files;
}

// The kept lines of one tenant, while some are added.
class Keeper {
 public:
  static Result<Keeper> Open(int directory, const std::string& tenant) {
    Keeper keeper(directory, NameOf(tenant));
    for (const std::string& name : {keeper.name_ + std::string(kOld), keeper.name_}) {
      auto reader = LogReader::OpenKept(directory, name);
      if (!reader && reader.error().code() == Code::kNotFound) continue;
      if (!reader) return Fail(std::move(reader).error());
      for (;;) {
        ATOLL_ASSIGN(const auto line, reader->Next());
        if (!line) break;
        if (const auto parsed = ParseLine(*line)) keeper.last_ = parsed->seq;
      }
      // A power cut may have torn the last line.
      if (name == keeper.name_) keeper.size_ = reader->offset();
    }
    ATOLL_TRY(keeper.OpenFile());
    return keeper;
  }

  Status Add(uint64_t seq, std::string_view line, uint64_t most) {
    if (seq <= last_) return {};
    last_ = seq;
    if (size_ >= most) {
      ATOLL_TRY(Flush());
      const std::string old = name_ + std::string(kOld);
      if (::renameat(directory_, name_.c_str(), directory_, old.c_str()) != 0) {
        return FailSys("rename " + name_);
      }
      size_ = 0;
      ATOLL_TRY(OpenFile());
    }
    buffer_.append(line).push_back('\n');
    size_ += line.size() + 1;
    return buffer_.size() < kBuffer ? Status() : Flush();
  }

  // `times`: of the file that the lines come from.
  Status Finish(const timespec& time) {
    ATOLL_TRY(Flush());
    const timespec times[] = {time, time};
    if (::futimens(file_.get(), times) != 0) return FailSys("futimens " + name_);
    if (::fdatasync(file_.get()) != 0) return FailSys("fdatasync " + name_);
    return {};
  }

 private:
  Keeper(int directory, std::string name) : directory_(directory), name_(std::move(name)) {}

  Status OpenFile() {
    ATOLL_ASSIGN(file_,
                 sys::OpenAt(directory_, name_,
                             O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK, kFileMode));
    if (::ftruncate(file_.get(), static_cast<off_t>(size_)) != 0) return FailSys("ftruncate");
    return {};
  }

  Status Flush() {
    ATOLL_TRY(sys::WriteAll(file_.get(), buffer_));
    buffer_.clear();
    return {};
  }

  int directory_;
  std::string name_;
  UniqueFd file_;
  uint64_t size_ = 0;  // bytes in the file and in the buffer
  uint64_t last_ = 0;  // number of the last line
  std::string buffer_;
};

}  // namespace

std::string_view TenantOf(std::string_view line) {
  constexpr std::string_view kMember = ",\"tenant\":\"";
  // Texts cannot hold these words, because their quotes are escaped.
  const std::string_view head = line.substr(0, line.find(",\"actor\":{"));
  const size_t found = head.find(kMember);
  if (found == std::string_view::npos) return {};
  const std::string_view rest = head.substr(found + kMember.size());
  return rest.substr(0, rest.find('"'));
}

Status KeepLines(int directory, uint64_t index, uint64_t tenant_bytes, uint64_t keep_bytes) {
  struct stat info {};
  std::map<std::string, uint64_t, std::less<>> sizes;  // key: tenant
  {
    ATOLL_ASSIGN(auto reader, LogReader::Open(directory, index));
    if (::fstat(reader.fd(), &info) != 0) return FailSys("fstat");
    for (;;) {
      ATOLL_ASSIGN(const auto line, reader.Next());
      if (!line) break;
      const std::string_view tenant = TenantOf(*line);
      const auto found = sizes.find(tenant);
      (found != sizes.end() ? found->second : sizes[std::string(tenant)]) += line->size() + 1;
    }
  }
  ATOLL_ASSIGN(const auto files, ListKept(directory));
  size_t owners = sizes.size();
  for (size_t i = 0; i < files.size(); ++i) {
    const bool counted = i > 0 && files[i - 1].tenant == files[i].tenant;
    if (!counted && !sizes.contains(files[i].tenant)) ++owners;
  }
  // Two files each take half of keep_bytes at most.
  const uint64_t most = std::min(tenant_bytes, keep_bytes / 4 / std::max<uint64_t>(owners, 1));
  if (most == 0) return {};
  std::map<std::string, Keeper, std::less<>> keepers;
  ATOLL_ASSIGN(auto reader, LogReader::Open(directory, index));
  for (;;) {
    ATOLL_ASSIGN(const auto line, reader.Next());
    if (!line) break;
    const std::string_view tenant = TenantOf(*line);
    uint64_t& left = sizes.find(tenant)->second;
    const bool newest = left <= most;
    left -= line->size() + 1;
    const auto parsed = newest ? ParseLine(*line) : std::nullopt;
    if (!parsed) continue;
    auto keeper = keepers.find(tenant);
    if (keeper == keepers.end()) {
      ATOLL_ASSIGN(Keeper opened, Keeper::Open(directory, std::string(tenant)));
      keeper = keepers.emplace(tenant, std::move(opened)).first;
    }
    ATOLL_TRY(keeper->second.Add(parsed->seq, *line, most));
  }
  for (auto& [tenant, keeper] : keepers) ATOLL_TRY(keeper.Finish(info.st_mtim));
  if (::fsync(directory) != 0) return FailSys("fsync of the audit directory");
  return {};
}

Result<uint64_t> SizeOfKept(int directory) {
  ATOLL_ASSIGN(const auto files, ListKept(directory));
  uint64_t size = 0;
  for (const KeptFile& file : files) size += file.size;
  return size;
}

Status DeleteKept(int directory, int64_t unix_s) {
  ATOLL_ASSIGN(const auto files, ListKept(directory));
  for (const KeptFile& file : files) {
    if (file.unix_s >= unix_s) continue;
    if (::unlinkat(directory, file.name.c_str(), 0) != 0) return FailSys("unlink " + file.name);
  }
  return {};
}

Status EachKept(int directory, const std::optional<std::string>& tenant, uint64_t end,
                const std::function<Result<bool>(const KeptLine& kept)>& each) {
  struct Opened {
    std::string name;
    LogReader reader;
    std::string_view line;  // the next one
    uint64_t seq = 0;
    uint64_t number = 0;
  };
  std::list<Opened> sources;  // a list, because the lines point into their readers
  ATOLL_ASSIGN(const auto files, ListKept(directory));
  for (const KeptFile& file : files) {
    if (tenant && *tenant != file.tenant) continue;
    auto reader = LogReader::OpenKept(directory, file.name);
    if (!reader && reader.error().code() == Code::kNotFound) continue;  // deleted meanwhile
    if (!reader) return Fail(std::move(reader).error());
    sources.push_back({file.name, std::move(*reader), {}});
  }
  const auto advance = [](Opened* source) -> Result<bool> {
    ATOLL_ASSIGN(const auto line, source->reader.Next());
    if (!line) return false;
    ++source->number;
    source->line = *line;
    // A line that is none comes first, so that a reader who verifies meets it.
    const auto parsed = ParseLine(*line);
    source->seq = parsed ? parsed->seq : 0;
    return true;
  };
  for (auto source = sources.begin(); source != sources.end();) {
    ATOLL_ASSIGN(const bool more, advance(&*source));
    source = more ? std::next(source) : sources.erase(source);
  }
  while (!sources.empty()) {
    const auto next =
        std::min_element(sources.begin(), sources.end(),
                         [](const Opened& a, const Opened& b) { return a.seq < b.seq; });
    if (next->seq >= end) return {};
    ATOLL_ASSIGN(const bool go_on, each({next->line, next->name, next->number}));
    if (!go_on) return {};
    ATOLL_ASSIGN(const bool more, advance(&*next));
    if (!more) sources.erase(next);
  }
  return {};
}

}  // namespace atl::audit
