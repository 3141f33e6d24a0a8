/* A foreign XDP program: it passes everything on to the kernel. */
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

SEC("xdp")
int pass_all(struct xdp_md *context)
{
	return XDP_PASS;
}
