#include "runtime/base/cpio.h"

#include <sys/stat.h>

#include <cstdio>
#include <utility>

namespace atl {
namespace {

void Pad(std::string& archive) {
  while (archive.size() % 4 != 0) archive.push_back('\0');
}

}  // namespace

void CpioWriter::AddDirectory(std::string_view name) {
  Add(name, S_IFDIR | 0755, {});
}

void CpioWriter::AddFile(std::string_view name, uint32_t mode, std::string_view bytes) {
  Add(name, S_IFREG | mode, bytes);
}

std::string CpioWriter::Finish() {
  Add("TRAILER!!!", 0, {});
  return std::exchange(archive_, {});
}

void CpioWriter::Add(std::string_view name, uint32_t mode, std::string_view bytes) {
  // inode, mode, uid, gid, links, time, size, the device's two numbers, the node's two, the name's
  // length with its NUL, and a checksum that this format leaves out.
  const unsigned fields[] = {next_inode_++,
                             mode,
                             0,
                             0,
                             1,
                             0,
                             static_cast<unsigned>(bytes.size()),
                             0,
                             0,
                             0,
                             0,
                             static_cast<unsigned>(name.size() + 1),
                             0};
  archive_ += "070701";
  for (const unsigned field : fields) {
    char text[9];
    ::snprintf(text, sizeof text, "%08X", field);
    archive_ += text;
  }
  archive_.append(name).push_back('\0');
  Pad(archive_);
  archive_ += bytes;
  Pad(archive_);
}

}  // namespace atl
