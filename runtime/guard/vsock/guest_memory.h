// The guest's memory as the monitor has shared it. The guest and the monitor write to it at any
// time: read a value once, into a local, and check the local.
//
// Only sealed memory files are accepted (F_SEAL_SHRINK), so no page that was mapped can go away,
// and an access never raises SIGBUS. QEMU's memory-backend-memfd seals its files.
//
// Thread rule: values, no shared state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"

namespace atl::vsock {

class GuestMemory {
 public:
  // A region as VHOST_USER_SET_MEM_TABLE describes it; all in bytes.
  struct Region {
    uint64_t guest_address;
    uint64_t size;
    uint64_t monitor_address;  // the same, for the monitor
    uint64_t file_offset;
  };
  static constexpr size_t kMaxRegions = 8;
  static constexpr uint64_t kMaxSize = uint64_t{1} << 40;  // sum of all regions

  GuestMemory() = default;  // without regions
  GuestMemory(GuestMemory&& other) noexcept : mapped_(std::move(other.mapped_)) {
    other.mapped_.clear();
  }
  GuestMemory& operator=(GuestMemory&& other) noexcept;
  ~GuestMemory() { Unmap(); }

  // Maps `regions`, each from the file of the same index. kInvalidArgument: too many, empty,
  // unaligned, overlapping or wrapping regions; a region beyond the end of its file; a file that
  // is not a memory file with F_SEAL_SHRINK.
  static Result<GuestMemory> Map(std::span<const Region> regions, std::span<const UniqueFd> files);

  // Return the memory at an address, or null if `size` bytes from there are not within one region.
  std::byte* AtGuest(uint64_t address, uint64_t size) const;
  std::byte* AtMonitor(uint64_t address, uint64_t size) const;

 private:
  struct Mapped {
    Region region;
    std::byte* bytes;
  };
  void Unmap();

  std::vector<Mapped> mapped_;
};

}  // namespace atl::vsock
