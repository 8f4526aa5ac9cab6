// JSON as execd needs it: reading request bodies that a stranger wrote, and writing answers.
//
// The reader follows what Go's encoding/json accepts of a body, as upstream does: the first JSON
// value counts and what follows is ignored, member names match without case, the last of equal
// names wins. Strings are decoded in place, nodes are 16 bytes each in one array, and depth and
// number of nodes are bounded: a hostile body costs a small multiple of its own size, whatever its
// shape. nlohmann/json was left out for that bound, for its 100 KiB of code, and because it throws.
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

// A value in a document; valid as long as the document. Default-constructed: absent.
class JsonValue {
 public:
  JsonValue() = default;

  bool present() const { return document_ != nullptr; }
  bool is(JsonType type) const { return present() && this->type() == type; }
  JsonType type() const;
  // Of a kString; empty for anything else. Bytes are not checked to be UTF-8.
  std::string_view text() const;
  // Of a kNumber, as it was written; empty for anything else.
  std::string_view literal() const;
  // Of a kBool / kInteger; false, 0 for anything else.
  bool boolean() const;
  int64_t integer() const;

  // The last member whose name equals `name` without case (ASCII); absent if none, or no object.
  JsonValue Find(std::string_view name) const;
  // Walks an array's elements, or an object's members: first(), then next() until not present().
  JsonValue first() const;
  JsonValue next() const;
  // The member's name, when reached by first()/next() of an object.
  std::string_view name() const;

 private:
  friend class JsonDocument;
  JsonValue(const JsonDocument* document, uint32_t index, uint32_t end)
      : document_(document), index_(index), end_(end) {}
  const JsonDocument* document_ = nullptr;
  uint32_t index_ = 0;
  uint32_t end_ = 0;    // where the enclosing container's nodes end
  bool named_ = false;  // the node before this one is its name
};

class JsonDocument {
 public:
  static constexpr int kMaxDepth = 64;
  static constexpr size_t kMaxNodes = 1 << 19;
  static constexpr size_t kMaxBytes = 16 << 20;

  // Takes the text over. kInvalidArgument with the offset of the fault; kResourceExhausted: more
  // than `limit` bytes, which is less than 4 GiB.
  static Result<JsonDocument> Parse(std::string text, size_t limit = kMaxBytes);
  JsonValue root() const { return JsonValue(this, 0, static_cast<uint32_t>(nodes_.size())); }

  // One value in the tree, containers first, then their content; `after` skips the content. A
  // member is two nodes: its name (kString), then its value.
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

// Appends `text` as a JSON string with quotes. Invalid UTF-8 becomes \ufffd; <, >, & and
// U+2028/2029 are escaped as Go does.
void AppendJsonString(std::string* out, std::string_view text);
// The same without the quotes: a string may be made of several pieces that tear no character.
void AppendJsonText(std::string* out, std::string_view text);
void AppendJsonInteger(std::string* out, int64_t value);
// A value that was read, strings as AppendJsonString writes them.
void AppendJsonValue(std::string* out, const JsonValue& value);
// At most three decimals.
void AppendJsonDecimal(std::string* out, double value);
// "2026-01-02T03:04:05.123456789Z", trailing zeros of the fraction cut, with quotes.
void AppendJsonTime(std::string* out, int64_t unix_seconds, int64_t nanoseconds);

}  // namespace atl::execd
