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
  // How much was ever appended, and the first offset that is still there.
  uint64_t end() const { return end_; }
  uint64_t begin() const { return end_ - bytes_.size(); }
  // Everything from `offset` on that is still there.
  std::string From(uint64_t offset) const;
  // `size` bytes from `offset` on; all of them must still be there.
  std::string Read(uint64_t offset, size_t size) const;

 private:
  size_t limit_;
  std::string bytes_;  // grows up to the limit, then is overwritten in a circle
  size_t oldest_ = 0;
  uint64_t end_ = 0;
};

}  // namespace atl::execd
