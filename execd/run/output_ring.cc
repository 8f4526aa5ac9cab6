#include "execd/run/output_ring.h"

#include <algorithm>

namespace atl::execd {

void OutputRing::Append(std::string_view bytes) {
  end_ += bytes.size();
  if (bytes.size() > limit_) bytes.remove_prefix(bytes.size() - limit_);
  const size_t grow = std::min(limit_ - bytes_.size(), bytes.size());
  bytes_.append(bytes.substr(0, grow));
  bytes.remove_prefix(grow);
  while (!bytes.empty()) {
    const size_t part = std::min(limit_ - oldest_, bytes.size());
    bytes_.replace(oldest_, part, bytes.substr(0, part));
    oldest_ = (oldest_ + part) % limit_;
    bytes.remove_prefix(part);
  }
}

std::string OutputRing::From(uint64_t offset) const {
  if (offset >= end_) return {};
  std::string all = bytes_.substr(oldest_) + bytes_.substr(0, oldest_);
  if (offset > begin()) all.erase(0, static_cast<size_t>(offset - begin()));
  return all;
}

std::string OutputRing::Read(uint64_t offset, size_t size) const {
  const size_t at = (oldest_ + static_cast<size_t>(offset - begin())) % limit_;
  std::string piece = bytes_.substr(at, size);
  piece.append(bytes_, 0, size - piece.size());
  return piece;
}

}  // namespace atl::execd
