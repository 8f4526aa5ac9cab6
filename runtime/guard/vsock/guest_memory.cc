#include "runtime/guard/vsock/guest_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <utility>

namespace atl::vsock {
namespace {

constexpr uint64_t kPage = 4096;

bool Overlap(uint64_t a, uint64_t a_size, uint64_t b, uint64_t b_size) {
  return a < b + b_size && b < a + a_size;
}

// Returns why a region cannot be used, null if it can.
const char* Fault(const GuestMemory::Region& region) {
  if (region.size == 0) return "is empty";
  if (((region.guest_address | region.size | region.monitor_address | region.file_offset) %
       kPage) != 0) {
    return "is not made of pages";
  }
  uint64_t end;
  if (__builtin_add_overflow(region.guest_address, region.size, &end) ||
      __builtin_add_overflow(region.monitor_address, region.size, &end) ||
      __builtin_add_overflow(region.file_offset, region.size, &end)) {
    return "wraps";
  }
  return nullptr;
}

Status CheckFile(const GuestMemory::Region& region, int file) {
  const int seals = ::fcntl(file, F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) {
    return Fail(Code::kInvalidArgument,
                "guest memory: not a memory file that is sealed against shrinking");
  }
  // The seal comes first, so the size that is read here can only grow.
  struct stat facts {};
  if (::fstat(file, &facts) != 0) return FailSys("fstat guest memory");
  if (region.file_offset + region.size > static_cast<uint64_t>(facts.st_size)) {
    return Fail(Code::kInvalidArgument, "guest memory: a region goes beyond its file");
  }
  return {};
}

}  // namespace

GuestMemory& GuestMemory::operator=(GuestMemory&& other) noexcept {
  if (this != &other) {
    Unmap();
    mapped_ = std::exchange(other.mapped_, {});
  }
  return *this;
}

void GuestMemory::Unmap() {
  for (const Mapped& mapped : mapped_) ::munmap(mapped.bytes, mapped.region.size);
  mapped_.clear();
}

Result<GuestMemory> GuestMemory::Map(std::span<const Region> regions,
                                     std::span<const UniqueFd> files) {
  if (regions.size() > kMaxRegions || regions.size() != files.size()) {
    return Fail(Code::kInvalidArgument, "guest memory: the number of regions or files is wrong");
  }
  GuestMemory memory;
  uint64_t total = 0;
  for (size_t i = 0; i < regions.size(); ++i) {
    const Region& region = regions[i];
    if (const char* fault = Fault(region)) {
      return Fail(Code::kInvalidArgument, std::string("guest memory: a region ") + fault);
    }
    if (region.size > kMaxSize - total) {
      return Fail(Code::kInvalidArgument, "guest memory: too large");
    }
    total += region.size;
    for (const Mapped& other : memory.mapped_) {
      if (Overlap(region.guest_address, region.size, other.region.guest_address,
                  other.region.size) ||
          Overlap(region.monitor_address, region.size, other.region.monitor_address,
                  other.region.size)) {
        return Fail(Code::kInvalidArgument, "guest memory: regions overlap");
      }
    }
    ATOLL_TRY(CheckFile(region, files[i].get()));
    void* bytes = ::mmap(nullptr, region.size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
                         files[i].get(), static_cast<off_t>(region.file_offset));
    if (bytes == MAP_FAILED) return FailSys("mmap guest memory");
    memory.mapped_.push_back({region, static_cast<std::byte*>(bytes)});
    // A crash of this process writes no guest memory down.
    ::madvise(bytes, region.size, MADV_DONTDUMP);
  }
  return memory;
}

std::byte* GuestMemory::AtGuest(uint64_t address, uint64_t size) const {
  for (const auto& [region, bytes] : mapped_) {
    const uint64_t offset = address - region.guest_address;
    if (offset < region.size && size <= region.size - offset) return bytes + offset;
  }
  return nullptr;
}

std::byte* GuestMemory::AtMonitor(uint64_t address, uint64_t size) const {
  for (const auto& [region, bytes] : mapped_) {
    const uint64_t offset = address - region.monitor_address;
    if (offset < region.size && size <= region.size - offset) return bytes + offset;
  }
  return nullptr;
}

}  // namespace atl::vsock
