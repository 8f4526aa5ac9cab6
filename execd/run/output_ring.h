// The last bytes of an output stream, addressed by their offset in the whole stream.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace atl::execd {

class OutputRing {
 public:
  explicit OutputRing(size_t limit) : limit_(limit) {}
  void Append(std::string_view bytes);
  // Offsets of the end of the stream and of the first byte that is still stored.
  uint64_t end() const { return end_; }
  uint64_t begin() const { return end_ - bytes_.size(); }
  // Returns everything from `offset` on that is still stored.
  std::string From(uint64_t offset) const;
  // Returns `size` bytes from `offset`, all of which must still be stored.
  std::string Read(uint64_t offset, size_t size) const;

 private:
  size_t limit_;
  std::string bytes_;  // grows up to the limit, then becomes circular
  size_t oldest_ = 0;
  uint64_t end_ = 0;
};

}  // namespace atl::execd
