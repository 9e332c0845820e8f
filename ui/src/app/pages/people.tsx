import { useState } from 'preact/hooks'
import type { Schemas } from '../../shared/api-types'
import { Confirm } from '../../shared/confirm'
import { CopyText } from '../../shared/copy-text'
import { errorMessage } from '../../shared/format'
import { showError, toast } from '../../shared/toast'
import { get, post, remove } from '../api'
import { Await, useMinuteTick, useResource } from '../resource'

type User = Schemas['UserShown']
type Plan = User['plan']

type Plans = Schemas['UsersShown']['plans']

const MIN_PASSWORD_CHARS = 10

export default function People() {
  const users = useResource(() => get('/api/users'), [], {})
  useMinuteTick()
  return (
    <>
      <h1>People</h1>
      <Await resource={users} keepStale>
        {({ users: found, plans }) => (
          <>
            <p class="mut">
              Each person has separate memories, which no other person sees. You own this server: only you see this
              page. Plans limit requests if the server was started with <code>--rate-limits</code>.
            </p>
            <NewUserForm plans={plans} onAdded={users.reload} />
            <ul class="list people" aria-label="People">
              {found.map((user) => (
                <UserCard key={user.name} user={user} plans={plans} reload={users.reload} />
              ))}
            </ul>
          </>
        )}
      </Await>
    </>
  )
}

function PlanChoice({ plans, plan, onChange }: { plans: Plans; plan?: Plan; onChange?: (plan: Plan) => void }) {
  return (
    <select name="plan" value={plan} onChange={(event) => onChange?.(event.currentTarget.value as Plan)}>
      {Object.entries(plans).map(([name, requests]) => (
        <option key={name} value={name}>
          {name}: {requests ?? 'any number of'} requests a minute
        </option>
      ))}
    </select>
  )
}

function NewUserForm({ plans, onAdded }: { plans: Plans; onAdded: () => void }) {
  const [error, setError] = useState('')
  async function add(event: SubmitEvent) {
    event.preventDefault()
    const form = event.currentTarget as HTMLFormElement
    const given = Object.fromEntries(new FormData(form)) as Record<string, string>
    try {
      const user = await post('/api/users', { body: { name: given.name!, plan: given.plan as Plan } })
      toast(`${user.name} is added. Make a sign-in link, and send it.`)
      form.reset()
      setError('')
      onAdded()
    } catch (thrown) {
      setError(errorMessage(thrown))
    }
  }
  return (
    <form class="card bar" aria-label="New person" onSubmit={add}>
      <label>
        Name <input name="name" required maxLength={64} autocomplete="off" placeholder="ann" />
      </label>
      <label>
        Plan <PlanChoice plans={plans} />
      </label>
      <button class="primary">Add</button>
      {error && (
        <p class="error" role="alert">
          {error}
        </p>
      )}
    </form>
  )
}

function UserCard({ user, plans, reload }: { user: User; plans: Plans; reload: () => void }) {
  const [link, setLink] = useState('')
  const [isSettingPassword, setSettingPassword] = useState(false)
  const run = async (action: () => Promise<unknown>) => {
    try {
      await action()
      reload()
    } catch (error) {
      showError(error)
    }
  }
  const path = { user: user.name }
  const makeLink = () => run(async () => setLink((await post('/api/users/{user}/link', { path })).link))
  const setPlan = (plan: Plan) =>
    run(async () => {
      await post('/api/users/{user}/plan', { path, body: { plan } })
      toast(`${user.name} has the plan ${plan}`)
    })
  const closePasswordForm = () => {
    setSettingPassword(false)
    reload()
  }
  const details = [
    user.is_owner ? 'owner of this server' : '',
    `since ${user.created_at.slice(0, 10)}`,
    user.has_password ? 'has a password' : 'no password',
    user.is_signed_in ? 'signed in' : 'not signed in',
  ]
  return (
    <li class="card stack">
      <div class="bar">
        <span>
          <b>{user.name}</b>
          <br />
          <span class="mut">{details.filter(Boolean).join(' · ')}</span>
        </span>
        <span class="space" />
        <label>
          Plan <PlanChoice plans={plans} plan={user.plan} onChange={setPlan} />
        </label>
        <button onClick={makeLink}>Make a sign-in link</button>
        <button aria-expanded={isSettingPassword} onClick={() => setSettingPassword(!isSettingPassword)}>
          Set a password
        </button>
        {!user.is_owner && <RemoveUser user={user} onRemove={run} />}
      </div>
      {link && (
        <div>
          <p>This link signs {user.name} in once, within a day. Send it to them alone.</p>
          <CopyText text={link} label="the sign-in link" />
        </div>
      )}
      {isSettingPassword && <PasswordForm user={user} onDone={closePasswordForm} />}
    </li>
  )
}

function PasswordForm({ user, onDone }: { user: User; onDone: () => void }) {
  const [error, setError] = useState('')
  async function setPassword(event: SubmitEvent) {
    event.preventDefault()
    const password = new FormData(event.currentTarget as HTMLFormElement).get('password')
    try {
      await post('/api/users/{user}/password', {
        path: { user: user.name },
        body: { password: typeof password === 'string' ? password : '' },
      })
      toast(`${user.name} has a new password`)
      onDone()
    } catch (thrown) {
      setError(errorMessage(thrown))
    }
  }
  return (
    <form class="bar" aria-label={`Password of ${user.name}`} onSubmit={setPassword}>
      <label>
        New password{' '}
        <input name="password" type="password" required minLength={MIN_PASSWORD_CHARS} autocomplete="new-password" />
      </label>
      <button>Save</button>
      <span class="mut">
        At least {MIN_PASSWORD_CHARS} characters. {user.is_owner ? 'You are' : `${user.name} is`} signed out everywhere.
      </span>
      {error && (
        <p class="error" role="alert">
          {error}
        </p>
      )}
    </form>
  )
}

function RemoveUser({ user, onRemove }: { user: User; onRemove: (action: () => Promise<unknown>) => void }) {
  const [asked, setAsked] = useState<'remove' | 'delete' | null>(null)
  const removeUser = () =>
    onRemove(async () => {
      const path = { user: user.name }
      const { data_deleted: isDeleted } = await remove('/api/users/{user}', {
        path,
        query: { delete_data: asked === 'delete' },
      })
      toast(`${user.name} is removed${isDeleted ? ', with all memories' : '. Their memories stay on the server'}`)
    })
  return (
    <>
      <button class="danger" onClick={() => setAsked('remove')}>
        Remove
      </button>
      <button class="danger" onClick={() => setAsked('delete')}>
        Remove with all memories
      </button>
      {asked && (
        <Confirm
          title={asked === 'delete' ? `Remove ${user.name} with all memories?` : `Remove ${user.name}?`}
          text={
            'Their keys stop working within a second, and it cannot be undone. ' +
            (asked === 'delete' ? 'All their memories are deleted for good.' : 'Their memories stay on the server.')
          }
          cancelLabel="Keep them"
          confirmLabel="Remove"
          onConfirm={removeUser}
          onClose={() => setAsked(null)}
        />
      )}
    </>
  )
}
