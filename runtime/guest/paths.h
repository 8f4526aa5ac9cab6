// Names in the initramfs of a virtual machine.
#pragma once

namespace atl::guest {

inline constexpr const char kInitPath[] = "/init";  // the kernel's choice
inline constexpr const char kExecdPath[] = "/execd";
inline constexpr const char kModulesPath[] = "/modules";
// A file in kModulesPath: a line with the file name of each module, in the order of loading.
inline constexpr const char kModuleOrder[] = "order";

}  // namespace atl::guest
