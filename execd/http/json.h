// JSON for execd: a reader for request bodies from untrusted clients, and a writer for answers.
//
// The reader accepts what Go's encoding/json accepts, as upstream does: it reads the first JSON
// value and ignores the rest, compares member names without case, and uses the last of equal names.
// It decodes strings in place, stores nodes of 16 bytes in one array, and bounds the depth and
// number of nodes. So a hostile body of any shape costs a small multiple of its own size.
// nlohmann/json has no such bound, adds 100 KiB of code, and throws.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/result.h"

namespace atl::execd {

enum class JsonType : uint8_t { kNull, kBool, kInteger, kNumber, kString, kArray, kObject };

class JsonDocument;

// A value in a document, valid as long as the document. A default-constructed value is absent.
class JsonValue {
 public:
  JsonValue() = default;

  bool present() const { return document_ != nullptr; }
  bool is(JsonType type) const { return present() && this->type() == type; }
  JsonType type() const;
  // Returns the text of a kString, and an empty string for other types. Bytes are not checked to be
  // UTF-8.
  std::string_view text() const;
  // Returns the source text of a kNumber, and an empty string for other types.
  std::string_view literal() const;
  // Return the value of a kBool or kInteger, and false or 0 for other types.
  bool boolean() const;
  int64_t integer() const;

  // Returns the last member whose name equals `name` without case (ASCII). Absent if there is none,
  // or if this is no object.
  JsonValue Find(std::string_view name) const;
  // Iterates over the elements of an array or the members of an object: first(), then next() until
  // the value is absent.
  JsonValue first() const;
  JsonValue next() const;
  // Returns the name of a member that first() or next() of an object has returned.
  std::string_view name() const;

 private:
  friend class JsonDocument;
  JsonValue(const JsonDocument* document, uint32_t index, uint32_t end)
      : document_(document), index_(index), end_(end) {}
  const JsonDocument* document_ = nullptr;
  uint32_t index_ = 0;
  uint32_t end_ = 0;    // index after the last node of the enclosing container
  bool named_ = false;  // the preceding node is the member's name
};

class JsonDocument {
 public:
  static constexpr int kMaxDepth = 64;
  static constexpr size_t kMaxNodes = 1 << 19;
  static constexpr size_t kMaxBytes = 16 << 20;

  // Parses `text`. kInvalidArgument: malformed; the message has the offset. kResourceExhausted:
  // more than `limit` bytes. `limit` must be less than 4 GiB.
  static Result<JsonDocument> Parse(std::string text, size_t limit = kMaxBytes);
  JsonValue root() const { return JsonValue(this, 0, static_cast<uint32_t>(nodes_.size())); }

  // One value in the tree. A container precedes its contents; `after` skips them. A member has two
  // nodes: its name (kString), then its value.
  struct Node {
    JsonType type;
    uint32_t after;  // index of the next sibling
    union {
      int64_t integer;
      struct {
        uint32_t offset, size;
      } text;
    };
  };

 private:
  friend class JsonValue;
  friend class JsonReader;
  std::string text_;
  std::vector<Node> nodes_;
};

// Appends `text` as a JSON string with quotes. Invalid UTF-8 becomes \ufffd. <, >, & and
// U+2028/2029 are escaped as in Go.
void AppendJsonString(std::string* out, std::string_view text);
// Appends like AppendJsonString, but without quotes. So a string can be written in several pieces,
// as long as no piece ends within a character.
void AppendJsonText(std::string* out, std::string_view text);
void AppendJsonInteger(std::string* out, int64_t value);
// Appends a value of a parsed document, with strings as AppendJsonString writes them.
void AppendJsonValue(std::string* out, const JsonValue& value);
// Appends a number with at most three decimals.
void AppendJsonDecimal(std::string* out, double value);
// Appends a time with quotes, without trailing zeros of the fraction:
// "2026-01-02T03:04:05.123456789Z".
void AppendJsonTime(std::string* out, int64_t unix_seconds, int64_t nanoseconds);

}  // namespace atl::execd
