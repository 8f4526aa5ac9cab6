#include "execd/run/processes.h"

#include <fcntl.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "execd/core/numbers.h"
#include "execd/http/json.h"
#include "runtime/base/sys.h"

namespace atl::execd {
namespace {

// Limit on the list, because an operator may allow a sandbox millions of processes.
constexpr int kMaxProcesses = 16384;
// Processes in one turn; each takes 25 µs.
constexpr int kSlice = 64;

// Returns the rest of the line that begins with `key`.
std::string_view LineOf(std::string_view text, std::string_view key) {
  const size_t at = text.find(key);
  if (at == std::string_view::npos) return {};
  text.remove_prefix(at + key.size());
  text = text.substr(0, text.find('\n'));
  return text.substr(std::min(text.find_first_not_of(" \t"), text.size()));
}

class Listing {
 public:
  Listing(std::shared_ptr<Exchange> exchange, UniqueFd proc, std::vector<std::string> names)
      : exchange_(std::move(exchange)), proc_(std::move(proc)), names_(std::move(names)) {}
  Listing(const Listing&) = delete;
  Listing& operator=(const Listing&) = delete;

  // Adds some processes. Returns false at the end.
  bool Step() {
    if (exchange_->closed()) return false;
    for (int i = 0; i < kSlice; ++i) {
      if (names_.empty() || count_ == kMaxProcesses) {
        exchange_->RespondJson(200,
                               json_ + "],\"truncated\":" + (names_.empty() ? "false}" : "true}"));
        return false;
      }
      if (const auto pid = ToNumber(names_.back())) Add(*pid);
      names_.pop_back();
    }
    return true;
  }

 private:
  // Adds a process, unless it has ended meanwhile.
  void Add(int64_t pid) {
    const auto status = sys::ReadFileAt(proc_.get(), std::to_string(pid) + "/status", 64 << 10);
    const auto uid = status ? KeyNumber(*status, "Uid:") : std::nullopt;
    if (!uid) return;
    // The kernel escapes newlines in names, so no name can imitate another line.
    json_ += count_++ == 0 ? "{\"pid\":" : ",{\"pid\":";
    AppendJsonInteger(&json_, pid);
    json_ += ",\"uid\":";
    AppendJsonInteger(&json_, *uid);
    json_ += ",\"state\":";
    AppendJsonString(&json_, LineOf(*status, "\nState:").substr(0, 1));
    json_ += ",\"memory_bytes\":";
    // A zombie has no memory, and no such line.
    AppendJsonInteger(&json_, KeyNumber(*status, "VmRSS:").value_or(0) << 10);
    json_ += ",\"name\":";
    AppendJsonString(&json_, LineOf(*status, "Name:"));
    json_ += '}';
  }

  const std::shared_ptr<Exchange> exchange_;
  const UniqueFd proc_;
  std::vector<std::string> names_;
  int count_ = 0;
  std::string json_ = "{\"processes\":[";
};

}  // namespace

void ListProcesses(Core* core, const std::shared_ptr<Exchange>& exchange) {
  auto proc = sys::Open("/proc", O_RDONLY | O_DIRECTORY);
  auto names = proc ? sys::ListDir(proc->get()) : Fail(proc.error());
  if (!names) return exchange->RespondError(500, "RUNTIME_ERROR", names.error().message());
  // Listing takes names from the back; the answer has the kernel's order.
  std::reverse(names->begin(), names->end());
  const auto listing = std::make_shared<Listing>(exchange, std::move(*proc), std::move(*names));
  if (listing->Step()) core->loop.Slice([listing] { return listing->Step(); });
}

}  // namespace atl::execd
