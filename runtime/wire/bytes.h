// The encoding of everything that travels between our processes: little-endian fixed-width
// integers, and byte strings as a 32-bit length and the bytes. No padding, no alignment, no
// self-description: a message's own Encode and Decode are its schema.
//
// A Reader never reads past its end: the first read that would makes it bad, every later read
// returns zero or empty, and ok() tells at the end. So decoders need one check, and a hostile
// length costs nothing.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace atl::wire {

class Writer {
 public:
  void U8(uint8_t value) { bytes_.push_back(static_cast<char>(value)); }
  void U32(uint32_t value) { Integer(value, 4); }
  void U64(uint64_t value) { Integer(value, 8); }
  void I64(int64_t value) { Integer(static_cast<uint64_t>(value), 8); }
  void Text(std::string_view text) {
    U32(static_cast<uint32_t>(text.size()));
    bytes_.append(text);
  }
  // A count and the elements; `element(item)` writes one.
  template <typename List, typename F>
  void Each(const List& list, F element) {
    U32(static_cast<uint32_t>(list.size()));
    for (const auto& item : list) element(item);
  }
  std::string Take() { return std::move(bytes_); }

 private:
  void Integer(uint64_t value, int width) {
    for (int i = 0; i < width; ++i) bytes_.push_back(static_cast<char>(value >> (8 * i)));
  }
  std::string bytes_;
};

class Reader {
 public:
  explicit Reader(std::string_view bytes) : rest_(bytes) {}

  uint8_t U8() { return static_cast<uint8_t>(Integer(1)); }
  uint32_t U32() { return static_cast<uint32_t>(Integer(4)); }
  uint64_t U64() { return Integer(8); }
  int64_t I64() { return static_cast<int64_t>(Integer(8)); }
  std::string Text() {
    const uint32_t size = U32();
    if (!ok_ || size > rest_.size()) {
      ok_ = false;
      return {};
    }
    std::string text(rest_.substr(0, size));
    rest_.remove_prefix(size);
    return text;
  }
  // Reads a count and calls `element()` that often. A count above `limit` is bad.
  template <typename F>
  void Each(uint32_t limit, F element) {
    const uint32_t count = U32();
    if (count > limit) ok_ = false;
    for (uint32_t i = 0; ok_ && i < count; ++i) element();
  }
  // True if nothing was missing so far.
  bool ok() const { return ok_; }
  // True if, also, nothing is left over.
  bool complete() const { return ok_ && rest_.empty(); }

 private:
  uint64_t Integer(size_t width) {
    if (!ok_ || rest_.size() < width) {
      ok_ = false;
      return 0;
    }
    uint64_t value = 0;
    for (size_t i = 0; i < width; ++i) {
      value |= static_cast<uint64_t>(static_cast<unsigned char>(rest_[i])) << (8 * i);
    }
    rest_.remove_prefix(width);
    return value;
  }
  std::string_view rest_;
  bool ok_ = true;
};

}  // namespace atl::wire
