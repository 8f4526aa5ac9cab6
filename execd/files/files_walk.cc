// Routes that walk a tree: list, search, grep, and recursive delete.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>

#include "execd/files/files.h"
#include "execd/files/glob.h"
#include "execd/files/tree_walk.h"
#include "runtime/base/clock.h"
#include "runtime/base/sys.h"
#include "runtime/base/tree_removal.h"

namespace atl::execd {
namespace {

const HeaderList& JsonHeaders() {
  static const HeaderList headers = {{"Content-Type", "application/json; charset=utf-8"}};
  return headers;
}

std::string Join(const std::string& root, const std::string& relative) {
  return root == "/" ? root + relative : root + "/" + relative;
}

// Opens the root of a tree. `follow`: links to directories are followed; otherwise they are
// refused.
Result<UniqueFd> OpenRoot(const std::string& path, bool follow) {
  ATOLL_ASSIGN(const struct stat info, Attributes(path));
  if (S_ISLNK(info.st_mode) && !follow) {
    return Fail(Code::kInvalidArgument, path + ": is a symbolic link, give the directory itself");
  }
  auto dir = OpenDirectory(path, Identity());
  if (!dir && dir.error().error_number() == ENOTDIR) {
    return Fail(Code::kInvalidArgument, path + ": is not a directory");
  }
  if (!dir) return dir;
  return sys::OpenAt(dir->get(), ".", O_RDONLY | O_DIRECTORY);
}

// Produces an array of FileInfo: all entries, or those whose name matches.
class InfoList : public Producer {
 public:
  InfoList(Core* core, Actor actor, UniqueFd root, std::string path, int max_depth,
           std::optional<Glob> glob)
      : core_(*core),
        actor_(std::move(actor)),
        walk_(std::move(root), max_depth),
        path_(std::move(path)),
        glob_(std::move(glob)) {}

  bool Produce(std::string* out) override {
    const FileIdentity as(*actor_);
    if (first_) out->push_back('[');
    for (int i = 0; i < 32; ++i) {
      if (!walk_.Next(&entry_)) {
        first_ = false;
        out->push_back(']');
        return false;
      }
      if (glob_ && (S_ISDIR(entry_.info.st_mode) || !glob_->Matches(entry_.name))) continue;
      if (any_) out->push_back(',');
      any_ = true;
      AppendFileInfo(out, &core_.names, Join(path_, entry_.path), entry_.info);
    }
    first_ = false;
    return true;
  }

 private:
  Core& core_;
  const Actor actor_;
  TreeWalk walk_;
  std::string path_;
  std::optional<Glob> glob_;
  TreeWalk::Entry entry_;
  bool first_ = true;
  bool any_ = false;
};

// Produces one line of JSON for each matching line of a regular file.
class GrepLines : public Producer {
 public:
  struct Query {
    std::string needle;
    bool ignore_case = false;
    std::optional<Glob> include;
    int64_t max_matches = 10000;
  };
  GrepLines(Core* core, UniqueFd root, std::string path, Query query)
      : core_(*core), walk_(std::move(root), 0), path_(std::move(path)), query_(std::move(query)) {
    if (query_.ignore_case) Lower(&query_.needle);
  }

  bool Produce(std::string* out) override {
    const FileIdentity as(core_.user);
    if (file_) return ReadPart(out);
    if (!walk_.Next(&entry_)) return false;
    // Reads no more than the size that stat returned. procfs files have size 0, so they are
    // skipped.
    if (!S_ISREG(entry_.info.st_mode) || entry_.info.st_size == 0) return true;
    if (query_.include && !query_.include->Matches(entry_.name)) return true;
    auto file = sys::OpenAt(walk_.dir(), std::string(entry_.name),
                            O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    if (!file) return true;
    file_ = std::move(*file);
    left_ = entry_.info.st_size;
    line_ = 1;
    pending_.clear();
    return true;
  }

 private:
  static constexpr size_t kPart = 128 << 10;
  static constexpr size_t kMaxText = 1024;

  static void Lower(std::string* text) {
    for (char& c : *text) {
      if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
    }
  }

  // Searches complete lines; the text after the last newline waits for the next part. A line longer
  // than a part is searched in pieces.
  bool ReadPart(std::string* out) {
    const size_t start = pending_.size();
    const size_t wanted = static_cast<size_t>(std::min<int64_t>(kPart, left_));
    pending_.resize(start + wanted);
    const ssize_t n = wanted == 0 ? 0 : ::read(file_.get(), pending_.data() + start, wanted);
    pending_.resize(start + static_cast<size_t>(std::max<ssize_t>(n, 0)));
    // A NUL marks a binary file, whose rest is skipped.
    const bool binary = pending_.find('\0', start) != std::string::npos;
    left_ -= std::max<ssize_t>(n, 0);
    const bool last = n <= 0 || left_ == 0;
    if (binary) {
      file_.reset();
      return true;
    }
    size_t end = last ? pending_.size() : pending_.rfind('\n');
    if (end == std::string::npos) end = pending_.size() > 2 * kPart ? pending_.size() : 0;
    if (end > 0) Search(std::string_view(pending_).substr(0, end), out);
    const size_t used = std::min(pending_.size(), end + (last ? 0 : 1));
    pending_.erase(0, end == 0 ? 0 : used);
    if (last) file_.reset();
    return matches_ < query_.max_matches;
  }

  void Search(std::string_view lines, std::string* out) {
    std::string lowered;
    std::string_view in = lines;
    if (query_.ignore_case) {
      lowered = lines;
      Lower(&lowered);
      in = lowered;
    }
    size_t counted = 0;
    for (size_t at = in.find(query_.needle); at != std::string_view::npos;) {
      line_ += std::count(lines.begin() + static_cast<std::ptrdiff_t>(counted),
                          lines.begin() + static_cast<std::ptrdiff_t>(at), '\n');
      counted = at;
      const size_t newline = lines.rfind('\n', at);
      const size_t line_start = at == 0 || newline == std::string_view::npos ? 0 : newline + 1;
      const size_t line_end = std::min(lines.find('\n', at), lines.size());
      if (++matches_ > query_.max_matches) return;
      Emit(lines.substr(line_start, line_end - line_start), at - line_start, out);
      at = line_end == lines.size() ? std::string_view::npos : in.find(query_.needle, line_end + 1);
    }
    line_ +=
        std::count(lines.begin() + static_cast<std::ptrdiff_t>(counted), lines.end(), '\n') + 1;
  }

  void Emit(std::string_view text, size_t column, std::string* out) {
    out->append("{\"path\":");
    AppendJsonString(out, Join(path_, entry_.path));
    out->append(",\"line\":");
    AppendJsonInteger(out, line_);
    out->append(",\"column\":");
    AppendJsonInteger(out, static_cast<int64_t>(column) + 1);
    out->append(",\"text\":");
    AppendJsonString(out, text.substr(0, kMaxText));
    out->append("}\n");
  }

  Core& core_;
  TreeWalk walk_;
  std::string path_;
  Query query_;
  TreeWalk::Entry entry_;
  UniqueFd file_;
  int64_t left_ = 0, line_ = 1, matches_ = 0;
  std::string pending_;
};

// Deletes paths in sequence.
class Removal : public std::enable_shared_from_this<Removal> {
 public:
  Removal(Core* core, std::shared_ptr<Exchange> exchange, Actor actor)
      : core_(*core), exchange_(std::move(exchange)), actor_(std::move(actor)) {
    for (const auto& [name, value] : exchange_->query()) {
      if (name == "path") paths_.push_back(value);
    }
  }

  // Returns false once the request is answered.
  bool Step() {
    const FileIdentity as(*actor_);
    const int64_t end = SystemClock().BootMicros() + 3000;
    while (SystemClock().BootMicros() < end) {
      if (!removal_ && !NextPath()) {
        exchange_->RespondEmpty();
        return false;
      }
      if (!removal_) continue;
      const auto done = removal_->Continue(end);
      if (!done) return Failed(done.error());
      if (*done) removal_.reset();
    }
    return true;
  }

 private:
  bool Failed(const Error& error) {
    exchange_->RespondError(500, "RUNTIME_ERROR", error.message());
    return false;
  }
  bool NextPath() {
    if (at_ == paths_.size()) return false;
    const auto path = core_.Path(paths_[at_++]);
    auto place = path ? FindPlace(AbsolutePath(core_, *path)) : Fail(path.error());
    if (place) {
      directory_ = std::move(place->dir);
      removal_.emplace(directory_.get(), std::move(place->name));
    }
    return true;
  }

  Core& core_;
  std::shared_ptr<Exchange> exchange_;
  const Actor actor_;
  std::vector<std::string> paths_;
  size_t at_ = 0;
  UniqueFd directory_;
  std::optional<TreeRemoval> removal_;
};

// Opens the root of a tree that the `path` parameter names. Answers an error and returns an invalid
// descriptor on failure. `ours`: the route does not exist in upstream.
UniqueFd RootOf(Core* core, Exchange* exchange, bool follow, bool ours, std::string* absolute) {
  const std::string* given = exchange->QueryValue("path");
  if (!given || given->empty()) {
    exchange->RespondError(400, "MISSING_QUERY", "missing query parameter 'path'");
    return {};
  }
  const auto path = ours ? LiteralPath(*given, core->Home()) : core->Path(*given);
  if (path) *absolute = AbsolutePath(*core, *path);
  auto root = path ? OpenRoot(*absolute, follow) : Fail(path.error());
  if (root) return std::move(*root);
  if (root.error().code() == Code::kInvalidArgument) {
    exchange->RespondError(400, "INVALID_REQUEST_BODY", root.error().message());
  } else {
    RespondFileError(exchange, root.error());
  }
  return {};
}

}  // namespace

void FileRoutes::ListDirectory(const Ptr& exchange, const Actor& actor) {
  core_.names.Refresh();
  const FileIdentity as(*actor);
  int depth = 1;
  if (const std::string* text = exchange->QueryValue("depth"); text && !text->empty()) {
    const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), depth);
    if (error != std::errc() || end != text->data() + text->size() || depth < 0) {
      exchange->RespondError(400, "INVALID_REQUEST_BODY",
                             "depth '" + *text + "': must be an integer of 0 or more");
      return;
    }
  }
  std::string path;
  UniqueFd root = RootOf(&core_, exchange.get(), false, false, &path);
  if (!root) return;
  if (depth == 0) {
    exchange->RespondJson(200, "[]");
    return;
  }
  RunProducer(&core_.loop, exchange,
              std::make_unique<InfoList>(&core_, actor, std::move(root), std::move(path), depth,
                                         std::nullopt),
              JsonHeaders());
}

void FileRoutes::Search(const Ptr& exchange, const Actor& actor) {
  core_.names.Refresh();
  const FileIdentity as(*actor);
  std::string path;
  UniqueFd root = RootOf(&core_, exchange.get(), true, false, &path);
  if (!root) return;
  const std::string* pattern = exchange->QueryValue("pattern");
  auto glob = Glob::Parse(pattern && !pattern->empty() ? *pattern : "**");
  if (!glob) {
    exchange->RespondError(500, "RUNTIME_ERROR", glob.error().message());
    return;
  }
  RunProducer(&core_.loop, exchange,
              std::make_unique<InfoList>(&core_, actor, std::move(root), std::move(path), 0,
                                         std::move(*glob)),
              JsonHeaders());
}

void FileRoutes::Grep(const Ptr& exchange) {
  const FileIdentity as(core_.user);
  GrepLines::Query query;
  const std::string* needle = exchange->QueryValue("query");
  if (!needle || needle->empty()) {
    exchange->RespondError(400, "MISSING_QUERY", "missing query parameter 'query'");
    return;
  }
  if (needle->find('\n') != std::string::npos) {
    exchange->RespondError(400, "INVALID_REQUEST_BODY", "query: must be within one line");
    return;
  }
  query.needle = *needle;
  const std::string* ignore_case = exchange->QueryValue("ignore_case");
  query.ignore_case = ignore_case && *ignore_case == "true";
  if (const std::string* include = exchange->QueryValue("include"); include && !include->empty()) {
    auto glob = Glob::Parse(*include);
    if (!glob) {
      exchange->RespondError(400, "INVALID_REQUEST_BODY", glob.error().message());
      return;
    }
    query.include = std::move(*glob);
  }
  if (const std::string* limit = exchange->QueryValue("max_matches")) {
    std::from_chars(limit->data(), limit->data() + limit->size(), query.max_matches);
  }
  std::string path;
  UniqueFd root = RootOf(&core_, exchange.get(), true, true, &path);
  if (!root) return;
  RunProducer(
      &core_.loop, exchange,
      std::make_unique<GrepLines>(&core_, std::move(root), std::move(path), std::move(query)),
      {{"Content-Type", "application/x-ndjson"}});
}

void FileRoutes::DeleteDirectories(const Ptr& exchange, const Actor& actor) {
  auto removal = std::make_shared<Removal>(&core_, exchange, actor);
  if (removal->Step()) core_.loop.Slice([removal] { return removal->Step(); });
}

void FileRoutes::MakeDirectories(const Ptr& exchange, const Actor& actor) {
  Permit(exchange, actor, [this, actor](const std::string& path, const Permission& permission) {
    return MakeDirectory(AbsolutePath(core_, path), *actor,
                         [&](int dir) { return ApplyOwner(dir, permission); });
  });
}

}  // namespace atl::execd
