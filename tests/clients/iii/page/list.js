const { sandboxes } = await iii.trigger({
  function_id: 'sandbox::list',
  payload: {},
})
