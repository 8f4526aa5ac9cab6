// GET /files/download with offset or limit: sends lines of a file instead of its bytes.
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "execd/files/files.h"

namespace atl::execd {
namespace {

struct LineRange {
  int64_t first = 1;
  int64_t last = std::numeric_limits<int64_t>::max();
};

// Sends the requested lines, separated by "\n". As in OpenSandbox's execd, a line does not include
// its end ("\n" and any "\r" before it), so nothing follows the last line.
class LineCutter : public Producer {
 public:
  LineCutter(Actor actor, UniqueFd file, int64_t size, LineRange lines)
      : actor_(std::move(actor)), file_(std::move(file)), left_(size), lines_(lines) {}

  bool Produce(std::string* out) override {
    const FileIdentity as(*actor_);
    part_.resize(static_cast<size_t>(std::min<int64_t>(kPart, left_)));
    const ssize_t n = part_.empty() ? 0 : ::read(file_.get(), part_.data(), part_.size());
    if (n <= 0) return false;
    left_ -= n;
    std::string_view rest(part_.data(), static_cast<size_t>(n));
    while (!rest.empty()) {
      if (at_start_ && !BeginLine(out)) return false;
      const size_t end = rest.find('\n');
      if (line_ >= lines_.first) Pass(rest.substr(0, end), out);
      at_start_ = end != std::string_view::npos;
      rest.remove_prefix(at_start_ ? end + 1 : rest.size());
    }
    return true;
  }

 private:
  static constexpr int64_t kPart = 128 << 10;
  // Limit on stored "\r". A longer series is no line end.
  static constexpr size_t kMaxHeld = 4096;

  bool BeginLine(std::string* out) {
    held_ = 0;
    if (++line_ > lines_.last) return false;
    if (line_ > lines_.first) out->push_back('\n');
    return true;
  }

  // Stores "\r" until it is clear that the line continues after it.
  void Pass(std::string_view text, std::string* out) {
    const size_t kept = text.find_last_not_of('\r') + 1;
    if (kept > 0) {
      out->append(held_, '\r').append(text.substr(0, kept));
      held_ = 0;
    }
    held_ += text.size() - kept;
    if (held_ > kMaxHeld) {
      out->append(held_, '\r');
      held_ = 0;
    }
  }

  const Actor actor_;
  UniqueFd file_;
  int64_t left_;
  const LineRange lines_;
  std::string part_;
  int64_t line_ = 0;
  size_t held_ = 0;
  bool at_start_ = true;
};

// Parses a number of at least 1, or an absent one. Answers an error and returns false if it is
// invalid.
bool TakeNumber(Exchange* exchange, const char* name, std::optional<int64_t>* number) {
  const std::string* text = exchange->QueryValue(name);
  if (!text || text->empty()) return true;
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error != std::errc() || end != text->data() + text->size() || value < 1) {
    exchange->RespondError(
        400, "INVALID_REQUEST_BODY",
        std::string(name) + " '" + text->substr(0, 64) + "': use a number of lines from 1");
    return false;
  }
  *number = value;
  return true;
}

}  // namespace

bool WantsLines(const Exchange& exchange) {
  const auto given = [&exchange](const char* name) {
    const std::string* text = exchange.QueryValue(name);
    return text && !text->empty();
  };
  return given("offset") || given("limit");
}

void SendLines(Core* core, const std::shared_ptr<Exchange>& exchange, const Actor& actor,
               UniqueFd file, int64_t size) {
  if (const std::string* range = exchange->head().Find("range"); range && !range->empty()) {
    exchange->RespondError(400, "INVALID_REQUEST_BODY",
                           "lines (offset, limit) and bytes (Range) exclude each other");
    return;
  }
  std::optional<int64_t> offset, limit;
  if (!TakeNumber(exchange.get(), "offset", &offset) ||
      !TakeNumber(exchange.get(), "limit", &limit)) {
    return;
  }
  LineRange lines;
  lines.first = offset.value_or(1);
  if (limit && *limit <= lines.last - lines.first) lines.last = lines.first + *limit - 1;
  RunProducer(&core->loop, exchange,
              std::make_unique<LineCutter>(actor, std::move(file), size, lines),
              {{"Content-Type", "text/plain; charset=utf-8"}});
}

}  // namespace atl::execd
