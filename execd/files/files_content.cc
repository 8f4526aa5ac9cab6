// Routes that read or rewrite the content of one file: download and replace.
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <optional>

#include "execd/files/file_writer.h"
#include "execd/files/files.h"
#include "runtime/base/clock.h"

namespace atl::execd {
namespace {

constexpr const char* kDays[] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
constexpr const char* kMonths[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                   "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};

std::string HttpDate(time_t when) {
  tm utc{};
  gmtime_r(&when, &utc);
  char text[64];
  const int n = std::snprintf(text, sizeof text, "%s, %02d %s %04d %02d:%02d:%02d GMT",
                              kDays[utc.tm_wday], utc.tm_mday, kMonths[utc.tm_mon],
                              utc.tm_year + 1900, utc.tm_hour, utc.tm_min, utc.tm_sec);
  return n > 0 && n < static_cast<int>(sizeof text) ? text : std::string();
}

// Parses "Sun, 06 Nov 1994 08:49:37 GMT", the only form that RFC 9110 lets senders generate.
// Returns nullopt for others.
std::optional<time_t> ParseHttpDate(const std::string& text) {
  if (text.size() != 29) return {};
  tm utc{};
  const auto number = [&](size_t at, size_t size, int* out) {
    const char* end = text.data() + at + size;
    const auto parsed = std::from_chars(text.data() + at, end, *out);
    return parsed.ec == std::errc() && parsed.ptr == end;
  };
  if (!number(5, 2, &utc.tm_mday) || !number(12, 4, &utc.tm_year) || !number(17, 2, &utc.tm_hour) ||
      !number(20, 2, &utc.tm_min) || !number(23, 2, &utc.tm_sec)) {
    return {};
  }
  utc.tm_year -= 1900;
  for (int i = 0; i < 12; ++i) {
    if (text.compare(8, 3, kMonths[i]) == 0) {
      utc.tm_mon = i;
      return ::timegm(&utc);
    }
  }
  return {};
}

std::string ContentDisposition(std::string_view name) {
  bool plain = true;
  for (const char c : name) plain &= c >= ' ' && c <= '~' && c != '"' && c != '\\';
  if (plain) return "attachment; filename=\"" + std::string(name) + "\"";
  // The file name is encoded as in RFC 5987.
  std::string out = "attachment; filename*=UTF-8''";
  static constexpr char kHex[] = "0123456789ABCDEF";
  for (const char c : name) {
    const bool token = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
                       std::strchr("!#$&+-.^_`|~", c) != nullptr;
    if (token && c != '\0') {
      out.push_back(c);
    } else {
      const auto byte = static_cast<unsigned char>(c);
      out.push_back('%');
      out.push_back(kHex[byte >> 4]);
      out.push_back(kHex[byte & 15]);
    }
  }
  return out;
}

struct Range {
  uint64_t first, length;
};
// Parses the first range of "bytes=…". Returns nullopt if it is malformed or outside the file.
std::optional<Range> ParseRange(std::string_view text, uint64_t size) {
  if (!text.starts_with("bytes=")) return {};
  text.remove_prefix(6);
  text = text.substr(0, text.find(','));
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  const size_t dash = text.find('-');
  if (dash == std::string_view::npos) return {};
  const auto number = [](std::string_view digits) -> std::optional<uint64_t> {
    uint64_t value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error != std::errc() || end != digits.data() + digits.size()) return {};
    return value;
  };
  const auto low = number(text.substr(0, dash)), high = number(text.substr(dash + 1));
  if (dash == 0) {
    if (!high || *high == 0 || size == 0) return {};
    const uint64_t length = std::min(*high, size);
    return Range{size - length, length};
  }
  if (!low || *low >= size) return {};
  uint64_t last = size - 1;
  if (dash + 1 < text.size()) {
    if (!high || *high < *low) return {};
    last = std::min(*high, last);
  }
  return Range{*low, last - *low + 1};
}

// Evaluates the request's conditions (RFC 9110 section 13). Returns 0 to continue, 304 or 412.
int CheckConditions(const http::Head& head, time_t modified) {
  if (const std::string* text = head.Find("if-unmodified-since")) {
    const auto since = ParseHttpDate(*text);
    if (since && modified > *since) return 412;
  }
  if (const std::string* text = head.Find("if-modified-since")) {
    const auto since = ParseHttpDate(*text);
    if (since && modified <= *since) return 304;
  }
  return 0;
}

// Replaces every occurrence of `old` in one file of any size. Reads the file in parts.
class Replacement {
 public:
  static constexpr size_t kPart = 256 << 10;

  Replacement(Core* core, Actor actor, std::string path, std::string from, std::string to)
      : core_(*core),
        actor_(std::move(actor)),
        path_(std::move(path)),
        from_(std::move(from)),
        to_(std::move(to)) {}

  int64_t count() const { return count_; }
  // Returns false at the end.
  Result<bool> Step() {
    const FileIdentity as(*actor_);
    if (!file_) {
      ATOLL_ASSIGN(file_, OpenRegular(path_, O_RDONLY, &info_));
      left_ = info_.st_size;
      return true;
    }
    const size_t wanted = static_cast<size_t>(std::min<int64_t>(kPart, left_));
    const size_t start = pending_.size();
    pending_.resize(start + wanted);
    const ssize_t n = ::read(file_.get(), pending_.data() + start, wanted);
    if (n < 0) return FailSys("read " + path_);
    pending_.resize(start + static_cast<size_t>(n));
    left_ -= n;
    const bool last = n == 0 || left_ == 0;
    ATOLL_TRY(Work(last));
    if (!last) return true;
    if (writer_) ATOLL_TRY(writer_->Commit({}));
    writer_.reset();
    return false;
  }

 private:
  Status Work(bool last) {
    size_t at = 0;
    for (size_t found = pending_.find(from_); found != std::string::npos;
         found = pending_.find(from_, at)) {
      // A file without a match is not written. The part before the first match is read a second
      // time.
      if (!writer_) ATOLL_TRY(BeginWriting());
      ATOLL_TRY(Put(std::string_view(pending_).substr(at, found - at)));
      ATOLL_TRY(Put(to_));
      at = found + from_.size();
      ++count_;
    }
    // Kept, because a match may begin in it.
    const size_t keep = last ? 0 : std::min(pending_.size() - at, from_.size() - 1);
    const size_t end = pending_.size() - keep;
    ATOLL_TRY(Put(std::string_view(pending_).substr(at, end - at)));
    passed_ += static_cast<int64_t>(end);
    pending_.erase(0, end);
    if (writer_ && !out_.empty()) {
      ATOLL_TRY(writer_->Write(out_));
      out_.clear();
    }
    return {};
  }

  Status Put(std::string_view bytes) {
    if (!writer_) return {};
    out_.append(bytes);
    if (out_.size() < kPart) return {};
    Status wrote = writer_->Write(out_);
    out_.clear();
    return wrote;
  }

  Status BeginWriting() {
    ATOLL_ASSIGN(writer_, FileWriter::Open(&core_, actor_, path_));
    std::string part(kPart, '\0');
    for (int64_t at = 0; at < passed_;) {
      const size_t wanted = static_cast<size_t>(std::min<int64_t>(kPart, passed_ - at));
      const ssize_t n = ::pread(file_.get(), part.data(), wanted, at);
      if (n <= 0) return FailSys("read " + path_);
      ATOLL_TRY(writer_->Write(std::string_view(part).substr(0, static_cast<size_t>(n))));
      at += n;
    }
    return {};
  }

  Core& core_;
  const Actor actor_;
  std::string path_, from_, to_;
  UniqueFd file_;
  struct stat info_ {};
  int64_t left_ = 0, passed_ = 0, count_ = 0;
  std::string pending_, out_;
  std::unique_ptr<FileWriter> writer_;
};

// All members of a replace request, in sequence.
class ReplaceRequest {
 public:
  ReplaceRequest(Core* core, std::shared_ptr<Exchange> exchange, Actor actor, JsonDocument document,
                 bool verbose)
      : core_(*core),
        exchange_(std::move(exchange)),
        actor_(std::move(actor)),
        document_(std::move(document)),
        verbose_(verbose) {
    at_ = document_.root().first();
    body_ = "{";
  }

  // Checks all members before the first file is changed.
  Status Check() const {
    for (JsonValue m = document_.root().first(); m.present(); m = m.next()) {
      auto from = TextMember(m, "old"), to = TextMember(m, "new");
      const std::string name(m.name());
      if (!from) return Fail(std::move(from).error().Wrap(name));
      if (!to) return Fail(std::move(to).error().Wrap(name));
      if (from->empty()) return Fail(Code::kInvalidArgument, name + ": old: must not be empty");
    }
    return {};
  }

  bool Step() {
    const int64_t end = MonotonicMicros() + 3000;
    do {
      if (!file_) {
        if (!at_.present()) {
          body_.push_back('}');
          if (verbose_) {
            exchange_->RespondJson(200, body_);
          } else {
            exchange_->RespondEmpty();
          }
          return false;
        }
        const auto path = core_.Path(at_.name());
        if (!path) return Failed(path.error());
        file_.emplace(&core_, actor_, AbsolutePath(core_, *path), *TextMember(at_, "old"),
                      *TextMember(at_, "new"));
      }
      const auto more = file_->Step();
      if (!more) return Failed(more.error());
      if (!*more) Done();
    } while (MonotonicMicros() < end);
    return true;
  }

 private:
  void Done() {
    if (body_.size() > 1) body_.push_back(',');
    AppendJsonString(&body_, at_.name());
    body_.append(":{\"replacedCount\":");
    AppendJsonInteger(&body_, file_->count());
    body_.push_back('}');
    file_.reset();
    at_ = at_.next();
  }
  bool Failed(const Error& error) {
    RespondFileError(exchange_.get(), error);
    return false;
  }

  Core& core_;
  std::shared_ptr<Exchange> exchange_;
  const Actor actor_;
  JsonDocument document_;
  JsonValue at_;
  bool verbose_;
  std::string body_;
  std::optional<Replacement> file_;
};

}  // namespace

void FileRoutes::Download(const Ptr& exchange, const Actor& actor) {
  const std::string* given = exchange->QueryValue("path");
  if (!given || given->empty()) {
    exchange->RespondError(400, "MISSING_QUERY", "missing query parameter 'path'");
    return;
  }
  const FileIdentity as(*actor);
  const auto path = core_.Path(*given);
  struct stat info;
  auto file = path ? OpenRegular(*path, O_RDONLY, &info) : Fail(path.error());
  if (!file) {
    RespondFileError(exchange.get(), file.error());
    return;
  }
  if (WantsLines(*exchange)) {
    SendLines(&core_, exchange, actor, std::move(*file), info.st_size);
    return;
  }
  const uint64_t size = static_cast<uint64_t>(info.st_size);
  HeaderList headers = {
      {"Content-Type", "application/octet-stream"},
      {"Content-Disposition", ContentDisposition(BaseName(AbsolutePath(core_, *path)))},
      {"Accept-Ranges", "bytes"},
      {"Last-Modified", HttpDate(info.st_mtim.tv_sec)}};
  if (const int status = CheckConditions(exchange->head(), info.st_mtim.tv_sec); status != 0) {
    exchange->Respond(status, {}, {}, {headers.back()});
    return;
  }
  Range range{0, size};
  int status = 200;
  const std::string* wanted = exchange->head().Find("range");
  const std::string* if_range = exchange->head().Find("if-range");
  if (wanted && if_range && ParseHttpDate(*if_range) != info.st_mtim.tv_sec) wanted = nullptr;
  if (wanted && !wanted->empty()) {
    const auto parsed = ParseRange(*wanted, size);
    if (!parsed) {
      exchange->RespondError(
          416, "UNKNOWN",
          "range '" + *wanted + "' is not in a file of " + std::to_string(size) + " bytes");
      return;
    }
    range = *parsed;
    status = 206;
    headers.emplace_back("Content-Range", "bytes " + std::to_string(range.first) + "-" +
                                              std::to_string(range.first + range.length - 1) + "/" +
                                              std::to_string(size));
  }
  exchange->StartStream(status, headers, &range.length);
  if (range.length > 0) exchange->WriteFile(std::move(*file), range.first, range.length);
  exchange->Finish();
}

void FileRoutes::Replace(const Ptr& exchange, const Actor& actor) {
  exchange->ReadBody(kMaxJsonBody, [this, actor, x = exchange.get()](std::string body) {
    auto document = ParseObject(std::move(body), false);
    if (!document) {
      x->RespondError(400, "INVALID_REQUEST_BODY", document.error().message());
      return;
    }
    const std::string* verbose = x->QueryValue("verbose");
    auto request = std::make_shared<ReplaceRequest>(
        &core_, x->shared_from_this(), actor, std::move(*document), verbose && *verbose == "true");
    if (const Status checked = request->Check(); !checked) {
      x->RespondError(400, "INVALID_REQUEST_BODY", checked.error().message());
      return;
    }
    core_.names.Refresh();
    if (request->Step()) core_.loop.Slice([request] { return request->Step(); });
  });
}

}  // namespace atl::execd
