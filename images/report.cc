#include "images/report.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <optional>
#include <utility>

#include "images/digest.h"
#include "runtime/base/disk_full.h"

namespace atl::images {
namespace {

constexpr size_t kMaxErrorLine = 512;
constexpr std::string_view kErrorPrefix = "error ";
// Marks a kResourceExhausted that is not the archive's fault: the disk is full.
constexpr std::string_view kNoRoom = "no_room";

// Codes that an archive can cause. Any other code becomes kInternal.
constexpr std::array kCodes = {Code::kInvalidArgument, Code::kResourceExhausted, Code::kUnavailable,
                               Code::kPermissionDenied, Code::kInternal};

bool ParseNumber(std::string_view text, uint64_t* value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
  return error == std::errc() && end == text.data() + text.size();
}

bool SetField(UnpackReport& report, std::string_view key, std::string_view value) {
  uint64_t number = 0;
  if (key == "diff_id" || key == "content") {
    if (!value.empty() && !IsSha256Digest(value)) return false;
    (key == "content" ? report.content : report.diff_id) = value;
    return true;
  }
  if (!ParseNumber(value, &number)) return false;
  if (key == "entries") {
    report.entries = number;
  } else if (key == "bytes") {
    report.bytes = number;
  } else if (key == "skipped_devices") {
    report.skipped_devices = number;
  } else if (key == "skipped_entries") {
    report.skipped_entries = number;
  } else if (key == "dropped_xattrs") {
    report.dropped_xattrs = number;
  } else if (key == "replaced_owners") {
    report.replaced_owners = number;
  } else if (key == "opaque_root") {
    report.opaque_root = number != 0;
  } else {
    return false;
  }
  return true;
}

}  // namespace

std::string UnpackReport::Encode() const {
  std::string text = "diff_id " + diff_id + "\ncontent " + content + "\n";
  const auto add = [&text](std::string_view key, uint64_t value) {
    text.append(key).append(1, ' ').append(std::to_string(value)).append(1, '\n');
  };
  add("entries", entries);
  add("bytes", bytes);
  add("skipped_devices", skipped_devices);
  add("skipped_entries", skipped_entries);
  add("dropped_xattrs", dropped_xattrs);
  add("replaced_owners", replaced_owners);
  add("opaque_root", opaque_root ? 1 : 0);
  return text;
}

Result<UnpackReport> ParseUnpackReport(std::string_view text) {
  constexpr int kFields = 9;
  UnpackReport report;
  int fields = 0;
  while (!text.empty()) {
    const size_t newline = text.find('\n');
    const std::string_view line = text.substr(0, newline);
    text.remove_prefix(newline == std::string_view::npos ? text.size() : newline + 1);
    const size_t space = line.find(' ');
    if (space == std::string_view::npos ||
        !SetField(report, line.substr(0, space), line.substr(space + 1)) || ++fields > kFields) {
      return Fail(Code::kInternal,
                  "atoll-unpack: unexpected line in its report: '" + Printable(line) + "'");
    }
  }
  if (fields != kFields) {
    return Fail(Code::kInternal, "atoll-unpack: its report has " + std::to_string(fields) + " of " +
                                     std::to_string(kFields) + " lines");
  }
  return report;
}

std::string EncodeUnpackError(const Error& error) {
  std::string line(kErrorPrefix);
  line.append(IsDiskFull(error) ? kNoRoom : CodeName(error.code())).append(": ");
  line.append(Printable(error.message(), kMaxErrorLine - line.size() - 1)).append(1, '\n');
  return line;
}

Error DecodeUnpackError(const Error& error) {
  const std::string_view message = error.message();
  const auto decode = [message](std::string_view word, Code code, int number) {
    const std::string marker = std::string(kErrorPrefix).append(word).append(": ");
    const size_t at = message.find(marker);
    if (at == std::string_view::npos) return std::optional<Error>();
    std::string_view text = message.substr(at + marker.size());
    text = text.substr(0, text.find('\n'));
    return std::optional<Error>(Error(code, Printable(text, kMaxErrorLine), number));
  };
  for (const Code code : kCodes) {
    if (auto decoded = decode(CodeName(code), code, 0)) return *std::move(decoded);
  }
  if (auto full = decode(kNoRoom, Code::kResourceExhausted, ENOSPC)) return *std::move(full);
  return Error(error.code(), Printable(message, kMaxErrorLine), error.error_number());
}

std::string Printable(std::string_view bytes, size_t limit) {
  constexpr char kHex[] = "0123456789abcdef";
  std::string text;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = byte >= 0x20 && byte < 0x7f;
    if (text.size() + (plain ? 1 : 4) + 3 > limit) {
      text.append("...");
      break;
    }
    if (plain) {
      text.append(1, c);
    } else {
      text.append("\\x").append(1, kHex[byte >> 4]).append(1, kHex[byte & 15]);
    }
  }
  return text;
}

}  // namespace atl::images
