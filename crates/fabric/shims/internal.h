/* Declarations that the files of the shim share. */
#ifndef MICANITE_FABRIC_INTERNAL_H
#define MICANITE_FABRIC_INTERNAL_H

#include <rdma/fabric.h>
#include <stdint.h>

struct micanite_fabric {
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_av *av;
	struct fid_cq *cq;
	struct fid_ep *ep;
	uint32_t slots_max;
	/* One per transfer: some providers keep their own state there. */
	struct fi_context2 contexts[];
};

#endif
