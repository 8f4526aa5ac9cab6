#include "execd/isolated/diff.h"

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "execd/files/files.h"
#include "execd/files/tar.h"
#include "execd/files/tar_format.h"
#include "execd/http/json.h"

namespace atl::execd {
namespace {

// Limit on the items of a list; later ones are not searched.
constexpr size_t kMaxItems = 50'000;
// Names examined for one piece of an answer.
constexpr int kLooks = 32;

const char* TypeName(mode_t mode) {
  return S_ISDIR(mode)    ? "directory"
         : S_ISLNK(mode)  ? "link"
         : S_ISFIFO(mode) ? "pipe"
         : S_ISSOCK(mode) ? "socket"
         : S_ISREG(mode)  ? "file"
                          : "device";
}

const char* KindName(SessionChange::Kind kind) {
  return kind == SessionChange::Kind::kAdded      ? "added"
         : kind == SessionChange::Kind::kModified ? "modified"
                                                  : "deleted";
}

// The changes of all overlays, in sequence.
class AllChanges {
 public:
  AllChanges(std::shared_ptr<const KeptOverlays> overlays, Actor actor)
      : overlays_(std::move(overlays)), actor_(std::move(actor)) {}

  const Actor& actor() const { return actor_; }
  // Returns the full path of the next change, or nullopt at the end. `looks` is decremented for
  // each name.
  Result<std::optional<std::string>> Next(SessionChange* change, int* looks) {
    for (; *looks > 0; --*looks) {
      if (overlays_->gone) return Fail(Code::kFailedPrecondition, "the session has ended");
      if (!changes_) {
        if (at_ == overlays_->list.size()) return std::nullopt;
        ATOLL_ASSIGN(changes_, SessionChanges::Begin(overlays_->list[at_]));
      }
      ATOLL_ASSIGN(const SessionChanges::Step step, changes_->Next(change));
      if (step == SessionChanges::Step::kEnd) {
        changes_.reset();
        ++at_;
      } else if (step == SessionChanges::Step::kChange) {
        const std::string& root = overlays_->list[at_].path;
        return (root == "/" ? "" : root) + "/" + change->path;
      }
    }
    return std::string();
  }

 private:
  const std::shared_ptr<const KeptOverlays> overlays_;
  const Actor actor_;
  std::optional<SessionChanges> changes_;
  size_t at_ = 0;
};

class ChangeList : public Producer {
 public:
  explicit ChangeList(AllChanges changes) : changes_(std::move(changes)) {}

  bool Produce(std::string* out) override {
    const FileIdentity as(*changes_.actor());
    if (!std::exchange(begun_, true)) out->append("{\"items\":[");
    for (int looks = kLooks; looks > 0; --looks) {
      auto path = changes_.Next(&change_, &looks);
      if (!path) return End(out, path.error().message());
      if (!*path) return End(out, "");
      if ((*path)->empty()) break;
      if (items_ == kMaxItems) return End(out, "there are more");
      Append(out, **path);
    }
    return true;
  }

 private:
  void Append(std::string* out, const std::string& path) {
    const bool deleted = change_.kind == SessionChange::Kind::kDeleted;
    const struct stat& info = deleted ? change_.was : change_.now;
    out->append(items_++ == 0 ? "{\"path\":" : ",{\"path\":");
    AppendJsonString(out, path);
    out->append(",\"kind\":\"").append(KindName(change_.kind));
    out->append("\",\"type\":\"").append(TypeName(info.st_mode)).append("\",\"size\":");
    AppendJsonInteger(out, S_ISREG(info.st_mode) ? info.st_size : 0);
    out->push_back('}');
  }
  static bool End(std::string* out, std::string_view missing) {
    out->append(missing.empty() ? "],\"truncated\":false" : "],\"truncated\":true,\"reason\":");
    if (!missing.empty()) AppendJsonString(out, missing);
    out->push_back('}');
    return false;
  }

  AllChanges changes_;
  SessionChange change_;
  size_t items_ = 0;
  bool begun_ = false;
};

class ChangeTar : public Producer {
 public:
  ChangeTar(AllChanges changes, std::shared_ptr<Exchange> exchange)
      : changes_(std::move(changes)), exchange_(std::move(exchange)) {}

  bool Produce(std::string* out) override {
    const FileIdentity as(*changes_.actor());
    if (entries_.unfinished()) {
      entries_.Continue(out);
      return true;
    }
    int looks = kLooks;
    auto path = changes_.Next(&change_, &looks);
    if (path && !*path) {
      TarEntries::End(out);
      return false;
    }
    Status written = path ? Status() : Fail(path.error());
    if (path && !(*path)->empty()) written = Append(out, (*path)->substr(1));
    if (written) return true;
    // The answer stays without its end, so that the client notices.
    exchange_->Abort();
    return false;
  }

 private:
  Status Append(std::string* out, std::string path) {
    if (change_.kind != SessionChange::Kind::kDeleted) {
      return entries_.Begin(out, change_.upper, change_.name, std::move(path), change_.now);
    }
    TarEntry mark;
    mark.name = path.substr(0, path.size() - change_.name.size()) + ".wh." + change_.name;
    mark.mode = 0644;
    AppendTarHeader(out, mark);
    return {};
  }

  AllChanges changes_;
  const std::shared_ptr<Exchange> exchange_;
  SessionChange change_;
  TarEntries entries_;
};

}  // namespace

void RespondSessionDiff(EventLoop* loop, const std::shared_ptr<Exchange>& exchange,
                        std::shared_ptr<const KeptOverlays> overlays, const Actor& actor) {
  const std::string* format = exchange->QueryValue("format");
  const bool archive = format != nullptr && *format == "tar";
  if (format != nullptr && !archive && *format != "list") {
    return exchange->RespondError(400, "INVALID_REQUEST_BODY",
                                  "format '" + format->substr(0, 40) + "': use list or tar");
  }
  AllChanges changes(std::move(overlays), actor);
  if (archive) {
    return RunProducer(loop, exchange, std::make_unique<ChangeTar>(std::move(changes), exchange),
                       {{"Content-Type", "application/x-tar"}});
  }
  RunProducer(loop, exchange, std::make_unique<ChangeList>(std::move(changes)),
              {{"Content-Type", "application/json; charset=utf-8"}});
}

}  // namespace atl::execd
