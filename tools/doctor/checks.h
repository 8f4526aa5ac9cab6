// The checks of the doctor. Each checks one property of the host and returns a finding.
#pragma once

#include <string>
#include <vector>

#include "tools/atoll/client/settings.h"
#include "tools/doctor/doctor.h"
#include "tools/doctor/finding.h"

namespace atl::doctor {

// kernel.cc
Finding CheckRoot();
Finding CheckKernelVersion();
Finding CheckUserNamespaces();
Finding CheckSeccomp();
Finding CheckMemfdExec();

// budgets.cc
std::vector<Finding> CheckBudgets();

// overlay.cc
Finding CheckOverlay(const HostOptions& options);

// cgroups.cc
std::vector<Finding> CheckCgroups();

// network.cc
std::vector<Finding> CheckNetwork();

// storage.cc
Finding CheckDataDir(const HostOptions& options);
Finding CheckDiskLimits(const HostOptions& options);

// daemon.cc: the problems that the running daemon reports.
std::vector<Finding> CheckDaemon(const cli::Settings& settings);

// gpu.cc: empty on a host without GPUs.
std::vector<Finding> CheckGpu();

// vm.cc: empty on a host that was not prepared for virtual machines.
std::vector<Finding> CheckVm(const HostOptions& options);

// service.cc
Finding CheckUser(const HostOptions& options);
Finding CheckPort(const HostOptions& options);

}  // namespace atl::doctor
