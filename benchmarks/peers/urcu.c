/*
 * liburcu as its users get it: read side inlined (_LGPL_SOURCE, small functions of the library inlined too),
 * with the loops in here, so that lock, dereference and unlock are compiled as one.
 *
 * Compiled at run time by shim.rs, twice: as a library that the bench loads, and, with PEERS_MAIN, as a program for
 * the read rows, since code of a shared library reaches liburcu's variables through one more load each than code of a
 * program, which is what users have. Nothing else of the crate needs a C compiler or liburcu.
 */
#define _LGPL_SOURCE
#define URCU_INLINE_SMALL_FUNCTIONS
#include <urcu/urcu-memb.h>
#include <urcu/urcu-qsbr.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct object {
	uint64_t value;
};

static struct object first = { 1 };
static struct object *shared = &first;

/* Sections with one dereference each. Both flavours publish by the same rcu_assign_pointer(). */

uint64_t peers_memb_read(uint64_t n)
{
	uint64_t sum = 0;

	for (uint64_t i = 0; i < n; i++) {
		urcu_memb_read_lock();
		sum += rcu_dereference(shared)->value;
		urcu_memb_read_unlock();
	}
	return sum;
}

uint64_t peers_qsbr_read(uint64_t n)
{
	uint64_t sum = 0;

	for (uint64_t i = 0; i < n; i++) {
		urcu_qsbr_read_lock();
		sum += rcu_dereference(shared)->value;
		urcu_qsbr_read_unlock();
	}
	return sum;
}

/* The same with a quiescent state after each section. */
uint64_t peers_qsbr_read_report(uint64_t n)
{
	uint64_t sum = 0;

	for (uint64_t i = 0; i < n; i++) {
		urcu_qsbr_read_lock();
		sum += rcu_dereference(shared)->value;
		urcu_qsbr_read_unlock();
		urcu_qsbr_quiescent_state();
	}
	return sum;
}

void peers_memb_register(void) { urcu_memb_register_thread(); }
void peers_memb_unregister(void) { urcu_memb_unregister_thread(); }
void peers_memb_synchronize(void) { urcu_memb_synchronize_rcu(); }
void peers_memb_barrier(void) { urcu_memb_barrier(); }

void peers_qsbr_register(void) { urcu_qsbr_register_thread(); }
void peers_qsbr_unregister(void) { urcu_qsbr_unregister_thread(); }
void peers_qsbr_synchronize(void) { urcu_qsbr_synchronize_rcu(); }
void peers_qsbr_online(void) { urcu_qsbr_thread_online(); }
void peers_qsbr_offline(void) { urcu_qsbr_thread_offline(); }

/*
 * Callbacks. The heads lie in a ring that is longer than any backlog the caller allows, as heads of users lie in
 * objects that exist anyway: no allocation in the measured path.
 */

struct node {
	struct rcu_head head;
	uint64_t *counter;
};

static struct node *ring;
static uint64_t ring_len;

static void count(struct rcu_head *head)
{
	struct node *node = caa_container_of(head, struct node, head);

	/* Only the one callback thread writes; another one reads. */
	CMM_STORE_SHARED(*node->counter, *node->counter + 1);
}

int peers_ring(uint64_t len)
{
	free(ring);
	ring = calloc(len, sizeof(*ring));
	ring_len = ring ? len : 0;
	return ring != NULL;
}

/* Queues n callbacks, starting with place `from` of the ring. */
void peers_memb_call(uint64_t from, uint64_t n, uint64_t *counter)
{
	for (uint64_t i = from; i < from + n; i++) {
		struct node *node = &ring[i % ring_len];

		node->counter = counter;
		urcu_memb_call_rcu(&node->head, count);
	}
}

/* The same with objects that are allocated and freed. */

static uint64_t *freed;

static void drop(struct rcu_head *head)
{
	free(caa_container_of(head, struct node, head));
	CMM_STORE_SHARED(*freed, *freed + 1);
}

void peers_memb_call_free(uint64_t n, uint64_t *counter)
{
	freed = counter;
	for (uint64_t i = 0; i < n; i++) {
		struct node *node = malloc(sizeof(*node));

		if (!node)
			abort();
		urcu_memb_call_rcu(&node->head, drop);
	}
}

#ifdef PEERS_MAIN

static uint64_t clock_ns(clockid_t id)
{
	struct timespec t;

	clock_gettime(id, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* Reads lines "FLAVOUR CHUNK SLICE_NS" and answers each with "SECTIONS CPU_NS WALL_NS SUM". */
int main(void)
{
	char flavour[16];
	unsigned long chunk, slice_ns;

	urcu_memb_register_thread();
	urcu_qsbr_register_thread();
	while (scanf("%15s %lu %lu", flavour, &chunk, &slice_ns) == 3) {
		uint64_t (*read)(uint64_t) = strcmp(flavour, "qsbr") ? peers_memb_read : peers_qsbr_read;
		uint64_t cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID), wall = clock_ns(CLOCK_MONOTONIC);
		uint64_t n = 0, sum = 0;

		do {
			sum += read(chunk);
			n += chunk;
		} while (clock_ns(CLOCK_MONOTONIC) - wall < slice_ns);
		wall = clock_ns(CLOCK_MONOTONIC) - wall;
		cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu;
		printf("%lu %lu %lu %lu\n", n, cpu, wall, sum);
		fflush(stdout);
	}
	return 0;
}
#endif
