/* Calls regions for the host's C: those that are C functions at once, all others through Python. */

typedef int region(void *context, int index, const void *const *inputs, void *const *outputs);
typedef int stateless(const void *const *inputs, void *const *outputs);
typedef int stateful(void *state, const void *const *inputs, void *const *outputs);

typedef struct {
    stateless *function; /* NULL where Python makes the call */
    stateful *with_state; /* NULL where Python makes the call */
    void *state;
} entry;

typedef struct {
    const entry *entries;
    region *python;
} calls;

/* A call that fails is made once more, by Python, which says what is wrong. */
int byocir_call(void *context, int index, const void *const *inputs, void *const *outputs)
{
    const calls *all = context;
    const entry *own = &all->entries[index];
    if (own->function && own->function(inputs, outputs) == 0) return 0;
    if (own->with_state && own->with_state(own->state, inputs, outputs) == 0) return 0;
    return all->python(0, index, inputs, outputs);
}
